"""Who may scrape: one with the token, an operator who is signed in, and, where the console is for this machine only,
a Prometheus on this machine.

The token is derived from the secret key, so it needs no setting and ends with the key. `manage.py metrics_token`
prints it.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac

from console.scope import is_operator
from renderqueue.config import config

_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")


def token() -> str:
    return salted_hmac("renderqueue.metrics", "scrape", algorithm="sha256").hexdigest()


def may_scrape(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return constant_time_compare(given.strip(), token())
    return _is_from_this_machine(request) or is_operator(request.user)


def _is_from_this_machine(request: HttpRequest) -> bool:
    """Only where nobody else can reach the console at all: a proxy on this machine forwards requests from anywhere,
    and need not say so."""
    host = urlsplit(config().public_url).hostname or ""
    if host not in ("127.0.0.1", "localhost", "::1"):
        return False
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
