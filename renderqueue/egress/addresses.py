"""What sort of address an IP address is: public, or why a stranger's URL must not reach it. Pure."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address

IPAddress = IPv4Address | IPv6Address


class AddressKind(StrEnum):
    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    CARRIER_NAT = "carrier-grade NAT"
    LINK_LOCAL = "link-local"
    METADATA = "cloud metadata"
    MULTICAST = "multicast"
    UNSPECIFIED = "unspecified"
    RESERVED = "reserved"


# Services that hand out credentials to whoever can reach them, some on addresses that look public.
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)

# IANA's special-purpose registries (RFC 6890 and its updates). The first match wins.
_KINDS_V4 = [
    (ipaddress.IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", AddressKind.UNSPECIFIED),
        ("10.0.0.0/8", AddressKind.PRIVATE),
        ("100.64.0.0/10", AddressKind.CARRIER_NAT),
        ("127.0.0.0/8", AddressKind.LOOPBACK),
        ("169.254.0.0/16", AddressKind.LINK_LOCAL),
        ("172.16.0.0/12", AddressKind.PRIVATE),
        ("192.0.0.0/24", AddressKind.RESERVED),
        ("192.0.2.0/24", AddressKind.RESERVED),
        ("192.88.99.0/24", AddressKind.RESERVED),
        ("192.168.0.0/16", AddressKind.PRIVATE),
        ("198.18.0.0/15", AddressKind.RESERVED),
        ("198.51.100.0/24", AddressKind.RESERVED),
        ("203.0.113.0/24", AddressKind.RESERVED),
        ("224.0.0.0/4", AddressKind.MULTICAST),
        ("240.0.0.0/4", AddressKind.RESERVED),
    )
]
_KINDS_V6 = [
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("::/128", AddressKind.UNSPECIFIED),
        ("::1/128", AddressKind.LOOPBACK),
        ("64:ff9b:1::/48", AddressKind.PRIVATE),
        ("2001::/23", AddressKind.RESERVED),
        ("2001:db8::/32", AddressKind.RESERVED),
        ("3fff::/20", AddressKind.RESERVED),
        ("fc00::/7", AddressKind.PRIVATE),
        ("fe80::/10", AddressKind.LINK_LOCAL),
        ("fec0::/10", AddressKind.PRIVATE),
        ("ff00::/8", AddressKind.MULTICAST),
    )
]
_GLOBAL_UNICAST_V6 = ipaddress.IPv6Network("2000::/3")

# Where an IPv6 address carries an IPv4 one: the network, and how far the IPv4 address is from the right.
_EMBEDDED_V4 = [
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("::ffff:0:0/96", 0),  # mapped
        ("::ffff:0:0:0/96", 0),  # translated
        ("64:ff9b::/96", 0),  # NAT64
        ("2002::/16", 80),  # 6to4
        ("::/96", 0),  # compatible; after :: and ::1
    )
]
_ISATAP_MARKS = (0x0000_5EFE, 0x0200_5EFE)


def kind_of(address: IPAddress) -> AddressKind:
    """The kind of an address. One that carries an IPv4 address (mapped, translated, NAT64, 6to4, ISATAP) is of
    the kind of what it carries, whenever that is not public."""
    if isinstance(address, IPv4Address):
        return _kind_v4(address)
    bare = IPv6Address(int(address))  # without a scope such as %eth0
    if bare in _METADATA:
        return AddressKind.METADATA
    for network, kind in _KINDS_V6:
        if bare in network:
            return kind
    carried = _carried_v4(bare)
    if carried is not None:
        return _kind_v4(carried)
    return AddressKind.PUBLIC if bare in _GLOBAL_UNICAST_V6 else AddressKind.RESERVED


def _kind_v4(address: IPv4Address) -> AddressKind:
    if address in _METADATA:
        return AddressKind.METADATA
    for network, kind in _KINDS_V4:
        if address in network:
            return kind
    return AddressKind.PUBLIC


def _carried_v4(address: IPv6Address) -> IPv4Address | None:
    for network, shift in _EMBEDDED_V4:
        if address in network:
            return IPv4Address(int(address) >> shift & 0xFFFF_FFFF)
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP_MARKS:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None
