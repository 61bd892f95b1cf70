"""Slowing down whoever guesses passwords.

Failures are counted for an address and name together, and for an address alone, in Django's cache. That is memory
of the web process: one process counts all there is, several count each for itself, and a restart forgets. A name
alone is not counted, or a stranger could lock a person out from afar.
"""

from __future__ import annotations

import hashlib

from django.core.cache import cache

WINDOW_S = 300
FAILURES_PER_NAME = 5
FAILURES_PER_ADDRESS = 50


def is_blocked(address: str, name: str) -> bool:
    found = cache.get_many(_keys(address, name))
    return any(found.get(key, 0) >= limit for key, limit in _keys(address, name).items())


def note_failure(address: str, name: str) -> None:
    """The count ends `WINDOW_S` after its first failure."""
    for key in _keys(address, name):
        if not cache.add(key, 1, WINDOW_S):
            try:
                cache.incr(key)
            except ValueError:
                cache.set(key, 1, WINDOW_S)  # it ended in between


def forget(address: str, name: str) -> None:
    """The person got in. What others tried from the same address still counts."""
    cache.delete(next(iter(_keys(address, name))))


def _keys(address: str, name: str) -> dict[str, int]:
    return {
        _key(address, name.strip().casefold()): FAILURES_PER_NAME,
        _key(address): FAILURES_PER_ADDRESS,
    }


def _key(*parts: str) -> str:
    return "sign-in:" + hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
