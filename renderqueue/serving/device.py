"""Which of a site's devices a request is for: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from renderqueue.identity import DEVICES

DEVICE_HEADER = "X-Renderqueue-Device"


def device_of(headers: Mapping[str, str], site_devices: Sequence[str]) -> str:
    """The device that the request names in its header, else the one of its User-Agent; the site's first device
    when the site does not render that one. Every mobile browser and crawler says "Mobi" in its User-Agent."""
    named = headers.get(DEVICE_HEADER, "").strip().lower()
    guessed = "mobile" if "mobi" in headers.get("User-Agent", "").lower() else "desktop"
    wanted = named if named in DEVICES else guessed
    if not site_devices or wanted in site_devices:
        return wanted
    return site_devices[0]
