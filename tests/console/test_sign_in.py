"""Signing in, out, and what happens to whoever guesses."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from console import throttle
from tests.console.conftest import PASSWORD, make_person

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]
FORM = "/sign-in/"


def attempt(client: Client, password: str, name: str = "mira", address: str = "192.0.2.1") -> int:
    return client.post(FORM, {"username": name, "password": password}, REMOTE_ADDR=address).status_code


def test_a_person_signs_in_and_comes_back_to_where_they_were_going(client: Client) -> None:
    make_person("mira")
    response = client.post(f"{FORM}?next=/sites/", {"username": "mira", "password": PASSWORD, "next": "/sites/"})
    assert (response.status_code, response["Location"]) == (302, "/sites/")


def test_nobody_is_sent_to_another_host_after_signing_in(client: Client) -> None:
    make_person("mira")
    elsewhere = "https://elsewhere.test/"
    response = client.post(FORM, {"username": "mira", "password": PASSWORD, "next": elsewhere})
    assert response["Location"] == "/"


def test_signing_out_is_a_post(operator_client: Client) -> None:
    assert operator_client.get(reverse("console:sign-out")).status_code == 405
    assert operator_client.post(reverse("console:sign-out")).status_code == 302
    assert operator_client.get("/").status_code == 302


def test_after_five_failures_even_the_right_password_waits(client: Client) -> None:
    make_person("mira")
    for _ in range(throttle.FAILURES_PER_NAME):
        assert attempt(client, "wrong") == 200
    assert attempt(client, PASSWORD) == 429
    assert attempt(client, PASSWORD, name="MIRA ") == 429


def test_others_and_other_addresses_are_not_held_up(client: Client) -> None:
    make_person("mira")
    make_person("jon")
    for _ in range(throttle.FAILURES_PER_NAME):
        attempt(client, "wrong")
    assert attempt(client, PASSWORD, name="jon") == 302
    assert attempt(client, PASSWORD, address="192.0.2.2") == 302


def test_an_address_that_tries_many_names_is_held_up(client: Client) -> None:
    make_person("mira")
    for number in range(throttle.FAILURES_PER_ADDRESS):
        throttle.note_failure("192.0.2.1", f"name {number}")
    assert attempt(client, PASSWORD) == 429


def test_getting_in_forgets_the_failures_before(client: Client) -> None:
    make_person("mira")
    for _ in range(throttle.FAILURES_PER_NAME - 1):
        attempt(client, "wrong")
    assert attempt(client, PASSWORD) == 302
    assert attempt(client, "wrong") == 200
    assert attempt(client, PASSWORD) == 302


def test_the_records_have_no_door_of_their_own(client: Client, operator: User) -> None:
    response = client.get("/admin/login/?next=/admin/")
    assert (response.status_code, response["Location"]) == (302, "/sign-in/?next=%2Fadmin%2F")
