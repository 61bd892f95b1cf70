"""Which hosts a render or a fetch may reach. Pure: names and addresses in, an exception or nothing out."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from renderqueue.egress.addresses import AddressKind, IPAddress, kind_of

# What nobody serves a site from. A name that an operator allowed must not lead there when its DNS changes; the
# address itself can be allowed.
_ONLY_BY_ADDRESS = frozenset({AddressKind.LINK_LOCAL, AddressKind.METADATA, AddressKind.RESERVED})
_NEVER = frozenset({AddressKind.MULTICAST, AddressKind.UNSPECIFIED})
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.\-]{0,251}[A-Za-z0-9_])?\.?", re.ASCII)
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):([0-9]{1,5})")


class EgressRefused(Exception):
    """The policy forbids this connection; `reason` says why, for logs and for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Public addresses are open; anything else only if the host, or host:port, was allowed explicitly.

    An entry counts for the name or address that was asked for, never for what another name resolves to:
    allowing `127.0.0.1:8000` does not allow `localhost:8000`. Entries that are not hosts match nothing;
    `normalise_entry` tells a person about them. With `refuse_everything` nothing is reachable."""

    allowed: frozenset[str] = field(default_factory=frozenset)
    refuse_everything: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed", frozenset(_readable(self.allowed)))

    def allows(self, host: str, port: int) -> bool:
        """Whether an operator allowed this host on this port though it is not public."""
        name = normalise_host(host)
        return name in self.allowed or _joined(name, port) in self.allowed


def check_address(address: IPAddress, host: str, port: int, policy: EgressPolicy) -> None:
    """Raise EgressRefused unless `address`, which `host` resolved to, may be dialled on `port`."""
    if policy.refuse_everything:
        raise EgressRefused("this listener refuses everything")
    if not 0 < port < 65536:
        raise EgressRefused(f"port {port} does not exist")
    kind = kind_of(address)
    if kind is AddressKind.PUBLIC:
        return
    literal = normalise_host(host) == str(address)
    if policy.allows(host, port) and kind not in _NEVER and (literal or kind not in _ONLY_BY_ADDRESS):
        return
    raise EgressRefused(f"{address} is a {kind} address")


def normalise_host(host: str) -> str:
    """Lower case, without brackets and the root's dot; addresses in their shortest form."""
    name = host.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def normalise_entry(entry: str) -> str:
    """The one form of an entry of `allowed`: `host`, `host:port` or `[IPv6]:port`. Raises ValueError with a
    sentence for the person who wrote it."""
    text = entry.strip()
    match = _WITH_PORT.fullmatch(text)
    host, port = match.groups() if match else (text, None)
    name = normalise_host(host)
    if not (_HOST.fullmatch(name) or (":" in name and _is_address(name))):
        raise ValueError(f"{entry!r} is not a host; write a name or an address, and :port if only one port is meant.")
    if port is None:
        return name
    if not 0 < int(port) < 65536:
        raise ValueError(f"{entry!r} names port {port}; ports go from 1 to 65535.")
    return _joined(name, int(port))


def is_host_name(host: str) -> bool:
    """Whether `host` may be given to a resolver."""
    return _HOST.fullmatch(host) is not None


def _readable(entries: Iterable[str]) -> Iterable[str]:
    for entry in entries:
        try:
            yield normalise_entry(entry)
        except ValueError:
            continue  # matches nothing: refusing is the safe reading, and forms check entries with normalise_entry


def _joined(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


REFUSE_EVERYTHING = EgressPolicy(refuse_everything=True)
"""For the browser's launch-level proxy: what does not go through a render's own listener goes nowhere."""
