"""Device, encoding, robots and origin slots: what is decided from a request or an answer alone."""

from __future__ import annotations

import pytest

from renderqueue.serving.device import device_of
from renderqueue.serving.encoding import negotiate
from renderqueue.serving.origin_slots import OriginBusy, OriginSlots
from renderqueue.serving.robots import is_indexable_page

GOOGLEBOT_PHONE = (
    "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/120.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


@pytest.mark.parametrize(
    ("named", "user_agent", "devices", "device"),
    [
        ("", GOOGLEBOT, ["desktop", "mobile"], "desktop"),
        ("", GOOGLEBOT_PHONE, ["desktop", "mobile"], "mobile"),
        ("", "", ["mobile", "desktop"], "desktop"),
        ("Mobile", GOOGLEBOT, ["desktop", "mobile"], "mobile"),
        ("desktop", GOOGLEBOT_PHONE, ["desktop", "mobile"], "desktop"),
        ("television", GOOGLEBOT_PHONE, ["desktop", "mobile"], "mobile"),
        ("", GOOGLEBOT_PHONE, ["desktop"], "desktop"),
        ("desktop", GOOGLEBOT, ["mobile"], "mobile"),
    ],
)
def test_device(named: str, user_agent: str, devices: list[str], device: str) -> None:
    assert device_of({"X-Renderqueue-Device": named, "User-Agent": user_agent}, devices) == device


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", "identity"),
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("x-gzip", "gzip"),
        ("GZIP", "gzip"),
        ("br;q=0.5, gzip;q=0.8", "gzip"),
        ("br;q=0, gzip;q=0", "identity"),
        ("br; q=0, *", "gzip"),
        ("*", "br"),
        ("*;q=0", "identity"),
        ("identity", "identity"),
        ("identity, gzip;q=0.5", "identity"),
        ("identity;q=0.5, gzip", "gzip"),
        ("gzip;q=nonsense", "identity"),
        ("deflate", "identity"),
        (", ,", "identity"),
    ],
)
def test_encoding(accepted: str, encoding: str) -> None:
    assert negotiate(accepted) == encoding


HTML = {"content-type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    ("status", "headers", "body", "page"),
    [
        (200, HTML, b"<title>x</title>", True),
        (200, {"content-type": "application/xhtml+xml"}, b"", True),
        (200, {"content-type": "application/json"}, b"{}", False),
        (200, {}, b"<title>x</title>", False),
        (404, HTML, b"", False),
        (301, HTML, b"", False),
        (200, {**HTML, "x-robots-tag": "noindex"}, b"", False),
        (200, {**HTML, "x-robots-tag": "nofollow, NoIndex"}, b"", False),
        (200, {**HTML, "x-robots-tag": "googlebot: none"}, b"", False),
        (200, {**HTML, "x-robots-tag": "max-image-preview: none"}, b"", True),
        (200, HTML, b"<meta name=robots content='noindex, follow'>", False),
        (200, HTML, b"<META NAME='Googlebot' CONTENT='NONE'>", False),
        (200, HTML, b"<meta name=robots content='index,max-image-preview:none'>", True),
        (200, HTML, b"<meta name=description content='about noindex'>", True),
        (200, HTML, b"<p>&lt;meta name=robots content=noindex&gt;</p>", True),
        (200, HTML, b"\xff\xfe<meta name=robots>", True),
    ],
)
def test_indexable_page(status: int, headers: dict[str, str], body: bytes, page: bool) -> None:
    assert is_indexable_page(status, headers, body) is page


def test_slots_of_one_site_are_bounded_and_come_back() -> None:
    slots = OriginSlots(2)
    with slots.slot(1), slots.slot(1):
        with pytest.raises(OriginBusy), slots.slot(1):
            pass
        with slots.slot(2):
            pass
    with pytest.raises(ZeroDivisionError), slots.slot(1):
        raise ZeroDivisionError
    with slots.slot(1), slots.slot(1):
        pass
