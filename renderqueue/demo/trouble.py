"""Pages of the demo shop that go wrong on purpose, each in one way that real sites do."""

from __future__ import annotations

from dataclasses import dataclass

SLOW_S = 4.0


@dataclass(frozen=True)
class Trouble:
    """`status` and `headers` of the document; `data_delay_s` before its data arrives; `ready`: whether the page
    ever sets window.prerenderReady to true."""

    path: str
    what: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    data_delay_s: float = 0.0
    ready: bool = True
    data_status: int = 200


TROUBLES = {
    trouble.path: trouble
    for trouble in (
        Trouble("/trouble/slow-data", f"its data takes {SLOW_S:.0f} s", data_delay_s=SLOW_S),
        Trouble("/trouble/never-ready", "it never says that it is ready", ready=False),
        Trouble("/trouble/broken", "the server fails", status=500),
        Trouble("/trouble/busy", "the server asks to come back later", status=503, headers=(("retry-after", "120"),)),
        Trouble("/trouble/not-found", "there is no such page, though the sitemap lists it", status=404),
        Trouble("/trouble/gone", "it was there once", status=410),
        Trouble("/trouble/moved", "it moved", status=301, headers=(("location", "/p/1"),)),
        Trouble("/trouble/data-fails", "its data cannot be read", data_status=500),
    )
}
