"""The devices that a page is rendered for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_MAJOR = re.compile(r"Chrome/(\d+)")


@dataclass(frozen=True, slots=True)
class Device:
    """A screen, and the system that its user agent names."""

    width: int
    height: int
    mobile: bool
    scale: float


DEVICES = {
    "desktop": Device(width=1366, height=900, mobile=False, scale=1.0),
    "mobile": Device(width=412, height=915, mobile=True, scale=2.625),
}


def context_options(name: str, browser_user_agent: str, product: str) -> dict[str, Any]:
    """What makes a new browser context this device. KeyError for a device that does not exist."""
    device = DEVICES[name]
    return {
        "viewport": {"width": device.width, "height": device.height},
        "device_scale_factor": device.scale,
        "is_mobile": device.mobile,
        "has_touch": device.mobile,
        "user_agent": user_agent(name, browser_user_agent, product),
    }


def user_agent(name: str, browser_user_agent: str, product: str) -> str:
    """Chromium's own user agent for the device with our product token behind it, so that an origin can tell the
    renders apart; without the word Headless, which origins refuse."""
    own = browser_user_agent.replace("HeadlessChrome/", "Chrome/")
    if DEVICES[name].mobile:
        version = _MAJOR.search(own)
        major = version.group(1) if version else "120"
        own = (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "
            f"Chrome/{major}.0.0.0 Mobile Safari/537.36"
        )
    return f"{own} {product}"
