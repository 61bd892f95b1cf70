from __future__ import annotations

import ipaddress

import pytest

from renderqueue.egress.policy import REFUSE_EVERYTHING, EgressPolicy, EgressRefused, check_address, normalise_entry


def allowed(address: str, host: str, port: int, *entries: str) -> bool:
    try:
        check_address(ipaddress.ip_address(address), host, port, EgressPolicy(frozenset(entries)))
    except EgressRefused:
        return False
    return True


def test_public_addresses_are_open_and_private_ones_closed() -> None:
    assert allowed("93.184.216.34", "example.com", 443)
    assert not allowed("10.0.0.1", "example.com", 443)


def test_an_allowed_host_is_open_on_every_port_and_host_with_port_on_that_port_only() -> None:
    assert allowed("10.0.0.1", "intra", 80, "intra")
    assert allowed("10.0.0.1", "intra", 8080, "intra:8080")
    assert not allowed("10.0.0.1", "intra", 8081, "intra:8080")
    assert allowed("::1", "::1", 8080, "[::1]:8080")
    assert not allowed("::1", "::1", 8081, "[::1]:8080")


def test_an_entry_counts_for_what_was_asked_not_for_what_it_resolves_to() -> None:
    assert not allowed("127.0.0.1", "localhost", 8000, "127.0.0.1:8000")
    assert not allowed("127.0.0.1", "2130706433", 8000, "127.0.0.1:8000")
    assert not allowed("127.0.0.1", "evil.test", 8000, "intra")


def test_spelling_of_hosts_does_not_matter() -> None:
    assert allowed("10.0.0.1", "Intra.", 80, " INTRA ")
    assert allowed("::1", "0:0:0:0:0:0:0:1", 80, "[::1]")


def test_an_allowed_name_never_leads_to_metadata_but_the_address_itself_can_be_allowed() -> None:
    assert not allowed("169.254.169.254", "intra", 80, "intra")
    assert not allowed("fe80::1", "intra", 80, "intra")
    assert allowed("169.254.169.254", "169.254.169.254", 80, "169.254.169.254:80")


def test_multicast_and_unspecified_are_never_open() -> None:
    assert not allowed("0.0.0.0", "0.0.0.0", 80, "0.0.0.0")
    assert not allowed("224.0.0.1", "224.0.0.1", 80, "224.0.0.1")


def test_port_zero_is_refused() -> None:
    assert not allowed("93.184.216.34", "example.com", 0)


def test_refuse_everything_refuses_public_addresses_too() -> None:
    with pytest.raises(EgressRefused, match="refuses everything"):
        check_address(ipaddress.ip_address("93.184.216.34"), "example.com", 443, REFUSE_EVERYTHING)


@pytest.mark.parametrize("entry", ["", "http://intra", "intra:0", "intra:99999", "a b", "*", "10.0.0.0/8"])
def test_an_entry_that_is_no_host_is_explained_and_opens_nothing(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host|names port"):
        normalise_entry(entry)
    assert EgressPolicy(frozenset({entry})).allowed == frozenset()
