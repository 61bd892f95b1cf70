from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderqueue.egress.addresses import AddressKind, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("8.8.8.8", AddressKind.PUBLIC),
        ("0.0.0.0", AddressKind.UNSPECIFIED),
        ("0.1.2.3", AddressKind.UNSPECIFIED),
        ("10.1.2.3", AddressKind.PRIVATE),
        ("100.64.0.1", AddressKind.CARRIER_NAT),
        ("100.100.100.200", AddressKind.METADATA),
        ("127.8.9.1", AddressKind.LOOPBACK),
        ("168.63.129.16", AddressKind.METADATA),
        ("169.254.1.1", AddressKind.LINK_LOCAL),
        ("169.254.169.254", AddressKind.METADATA),
        ("172.31.255.255", AddressKind.PRIVATE),
        ("172.32.0.1", AddressKind.PUBLIC),
        ("192.0.0.8", AddressKind.RESERVED),
        ("192.168.0.1", AddressKind.PRIVATE),
        ("198.19.0.1", AddressKind.RESERVED),
        ("224.0.0.251", AddressKind.MULTICAST),
        ("255.255.255.255", AddressKind.RESERVED),
        ("2606:4700::1111", AddressKind.PUBLIC),
        ("::", AddressKind.UNSPECIFIED),
        ("::1", AddressKind.LOOPBACK),
        ("fe80::1%lo", AddressKind.LINK_LOCAL),
        ("fc00::1", AddressKind.PRIVATE),
        ("fd00:ec2::254", AddressKind.METADATA),
        ("fec0::1", AddressKind.PRIVATE),
        ("ff02::1", AddressKind.MULTICAST),
        ("2001:db8::1", AddressKind.RESERVED),
        ("2001::1", AddressKind.RESERVED),
        ("4000::1", AddressKind.RESERVED),
        ("64:ff9b:1::a00:1", AddressKind.PRIVATE),
    ],
)
def test_every_special_range_has_its_kind(text: str, kind: AddressKind) -> None:
    assert kind_of(ipaddress.ip_address(text)) is kind


@pytest.mark.parametrize(
    "text",
    [
        "::ffff:127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "2606:4700::5efe:127.0.0.1",
    ],
)
def test_an_ipv6_address_is_what_it_carries(text: str) -> None:
    assert kind_of(ipaddress.ip_address(text)) is AddressKind.LOOPBACK


def test_nat64_of_a_public_address_is_public() -> None:
    assert kind_of(ipaddress.ip_address("64:ff9b::808:808")) is AddressKind.PUBLIC


@given(st.ip_addresses())
def test_nothing_that_the_standard_library_calls_not_global_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    carries = isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address in ipaddress.ip_network("64:ff9b::/96")
    )
    if not address.is_global and not carries:
        assert kind_of(address) is not AddressKind.PUBLIC


@given(st.ip_addresses(v=4))
def test_carried_addresses_are_as_closed_as_the_bare_ones(address: ipaddress.IPv4Address) -> None:
    kind = kind_of(address)
    for form in (
        ipaddress.IPv6Address(0xFFFF_0000_0000 | int(address)),
        ipaddress.IPv6Address((0x64_FF9B << 96) | int(address)),
        ipaddress.IPv6Address((0x2002 << 112) | int(address) << 80),
    ):
        assert kind_of(form) is kind
