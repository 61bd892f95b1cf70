"""Which stored form of a body a client takes: pure (RFC 9110, 12.5.3; trap 42)."""

from __future__ import annotations

from typing import Literal

Encoding = Literal["br", "gzip", "identity"]

_PREFERENCE: tuple[Encoding, ...] = ("br", "gzip")


def negotiate(accept_encoding: str) -> Encoding:
    """The client's best of br and gzip by its weights, br when they are equal, else identity. A client that sends
    no Accept-Encoding, or one that nothing stored fits, gets identity."""
    weights = _weights(accept_encoding)
    rest = weights.get("*", 0.0)
    identity = weights.get("identity", rest if "*" in weights else 0.001)
    best = max(_PREFERENCE, key=lambda name: weights.get(name, rest))
    weight = weights.get(best, rest)
    return best if weight > 0 and weight >= identity else "identity"


def _weights(header: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for item in header.split(","):
        name, _, parameters = item.partition(";")
        if name.strip():
            weights[name.strip().lower().removeprefix("x-")] = _quality(parameters)
    return weights


def _quality(parameters: str) -> float:
    name, _, value = parameters.partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 0.0
