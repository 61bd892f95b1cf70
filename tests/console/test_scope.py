"""What is not yours is not there (D18, trap 47): every view, with somebody else's object and with one's own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client
from django.urls import URLPattern

from console.urls import urlpatterns
from renderqueue.models import Project, RenderSchedule, Site, SitemapRun
from renderqueue.scheduling import leases
from tests.console.conftest import Reporting, client_of, head_of, make_person, member
from tests.factories import make_page, make_site

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@dataclass
class World:
    own: Site
    other: Site
    own_page: RenderSchedule
    other_page: RenderSchedule
    owner: Client
    viewer: Client
    stranger: Client


@pytest.fixture
def world(reporting: Reporting) -> World:
    project = Project.objects.create(name="Own project", slug="own")
    own = make_site(project=project, host="own.test", name="Own site")
    other = make_site(host="other.test", name="Other site")
    own_page, other_page, leased = make_page(own, "/mine"), make_page(other, "/secret"), make_page(other, "/rendering")
    node = reporting("render@private", due=4321, claimable=4321, head=head_of(other_page, own_page))
    leases.claim(node, [leased.pk], 60)
    return World(
        own, other, own_page, other_page,
        client_of(member(project, "owner")), client_of(member(project, "viewer")), client_of(make_person("stranger")),
    )  # fmt: skip


# view -> status for: owner's own, viewer's own, somebody else's, a stranger's, nobody's
GET = {
    "site": (200, 200, 404, 404, 302),
    "site-live": (200, 200, 404, 404, 302),
    "site-ingest": (405, 405, 405, 405, 405),
}
POST = {"site-ingest": (302, 403, 404, 404, 302)}
WITHOUT_OBJECT = {"overview", "overview-live", "sites", "site-add", "sign-in", "sign-out", "metrics"}


def test_the_matrix_names_every_view() -> None:
    assert all(isinstance(pattern, URLPattern) for pattern in urlpatterns)
    assert {pattern.name for pattern in urlpatterns} == WITHOUT_OBJECT | set(GET)


@pytest.mark.parametrize(("view", "expected"), GET.items())
def test_who_may_look(world: World, view: str, expected: tuple[int, ...]) -> None:
    own, other = (f"/sites/{site.pk}/{_rest(view)}" for site in (world.own, world.other))
    seen = (
        world.owner.get(own), world.viewer.get(own), world.owner.get(other), world.stranger.get(own), Client().get(own),
    )  # fmt: skip
    assert tuple(response.status_code for response in seen) == expected


@pytest.mark.parametrize(("view", "expected"), POST.items())
def test_who_may_act(world: World, view: str, expected: tuple[int, ...]) -> None:
    own, other = (f"/sites/{site.pk}/{_rest(view)}" for site in (world.own, world.other))
    data = {"url": "https://own.test/sitemap.xml"}
    seen = (
        world.owner.post(own, data),
        world.viewer.post(own, data),
        world.owner.post(other, {"url": "https://other.test/sitemap.xml"}),
        world.stranger.post(own, data),
        Client().post(own, data),
    )
    assert tuple(response.status_code for response in seen) == expected
    assert [run.sitemap.site for run in SitemapRun.objects.all()] == [world.own]


@pytest.mark.parametrize("path", ["/", "/live/", "/sites/"])
def test_lists_show_nothing_of_others(world: World, path: str) -> None:
    for client in (world.owner, world.viewer):
        shown = client.get(path).content.decode()
        assert "own.test" in shown
        for secret in ("other.test", "Other site", "4,321", "4321", "render@private"):
            assert secret not in shown
    shown = world.stranger.get(path).content.decode()
    assert "own.test" not in shown
    assert "other.test" not in shown


def test_an_owner_is_told_that_the_view_is_partial(world: World) -> None:
    shown = world.owner.get("/").content.decode()
    assert "A partial view" in shown
    assert "Queued: 1 page of your sites near the front of the queue, 0 being rendered." in shown


def test_a_report_that_places_a_page_at_the_wrong_site_gives_nothing_away(world: World, reporting: Reporting) -> None:
    reporting("render@private", head=head_of(world.other_page, site=world.own.pk))
    assert "other.test" not in world.owner.get("/").content.decode()


def test_viewers_add_no_site(world: World) -> None:
    assert world.viewer.get("/sites/new/").status_code == 403
    assert world.stranger.get("/sites/new/").status_code == 403
    assert world.owner.get("/sites/new/").status_code == 200


def test_an_operator_sees_all(world: World, operator_client: Client) -> None:
    shown = operator_client.get("/").content.decode()
    assert "https://own.test/mine" in shown
    assert "https://other.test/secret" in shown
    assert operator_client.get(f"/sites/{world.other.pk}/").status_code == 200


def test_owners_never_enter_the_records(world: World) -> None:
    assert world.owner.get("/admin/").status_code == 302
    assert world.owner.get("/admin/renderqueue/site/").status_code == 302


def test_a_person_who_was_deactivated_sees_nothing(world: World) -> None:
    person = make_person("former", is_staff=True)
    client = client_of(person)
    person.is_active = False
    person.save()
    assert client.get("/").status_code == 302


def _rest(view: str) -> str:
    return {"site": "", "site-live": "live/", "site-ingest": "ingest/"}[view]
