"""From a sitemap on a real server to schedule rows: traps 31 to 35, F86, F88, F91, F97."""

from __future__ import annotations

import datetime as dt
import gzip

import pytest

from renderqueue.models import RenderSchedule, Route, SiteHost, Sitemap, SitemapRun
from renderqueue.sitemaps.ingest import IngestFailed
from renderqueue.sitemaps.parse import ReadLimits
from renderqueue.sitemaps.walk import WalkLimits
from tests.factories import make_page, make_site
from tests.sitemaps.conftest import Shop

pytestmark = pytest.mark.postgres


def pages(shop: Shop) -> dict[str, RenderSchedule]:
    found = RenderSchedule.objects.filter(site=shop.site).select_related("sitemap")
    return {page.url.removeprefix(shop.site.origin): page for page in found}


def owners(shop: Shop) -> dict[str, str | None]:
    return {
        path: page.sitemap.url.removeprefix(shop.site.origin) if page.sitemap else None
        for path, page in pages(shop).items()
    }


def test_listed_urls_become_pages_of_the_document_that_lists_them(shop: Shop) -> None:
    shop.urlset("/1.xml", ["/a", "/b"], "<changefreq>daily</changefreq>")
    shop.serve("/2.xml.gz", gzip.compress(b"<urlset><url><loc>/c</loc></url></urlset>"))
    shop.index("/root.xml", ["/1.xml", "/2.xml.gz"])
    tally = shop.ingest("/root.xml")
    assert owners(shop) == {"/a": "/1.xml", "/b": "/1.xml", "/c": "/2.xml.gz"}
    assert (tally.documents, tally.listed, tally.created) == (3, 3, 3)
    assert pages(shop)["/a"].declared_interval_s == 86400
    assert pages(shop)["/c"].declared_interval_s is None
    assert Sitemap.objects.get(url=shop.url("/1.xml")).parent == shop.sitemap("/root.xml")
    run = shop.last_run()
    assert (run.state, run.listed, run.created, run.error) == ("done", 3, 3, "")
    assert run.finished_at is not None


def test_first_deadlines_are_spread_over_the_interval(shop: Shop) -> None:
    shop.urlset("/s.xml", [f"/{number}" for number in range(400)], "<changefreq>daily</changefreq>")
    shop.ingest("/s.xml")
    now = dt.datetime.now(dt.UTC)
    hours = [(page.due_at - now).total_seconds() / 3600 for page in pages(shop).values() if page.due_at]
    assert all(-0.1 < hour < 24.1 for hour in hours)
    in_each_quarter = [sum(6 * quarter <= hour < 6 * quarter + 6 for hour in hours) for quarter in range(4)]
    assert min(in_each_quarter) > 60


def test_reading_again_moves_no_deadline_and_writes_no_row(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a", "/b"], "<changefreq>daily</changefreq>")
    shop.ingest("/s.xml")
    before = list(RenderSchedule.objects.order_by("id").values())
    shop.urlset("/s.xml", ["/b", "/a"], "<changefreq>daily</changefreq>")
    tally = shop.ingest("/s.xml")
    assert list(RenderSchedule.objects.order_by("id").values()) == before
    assert (tally.created, tally.existing, tally.attached, tally.unlinked) == (0, 2, 0, 0)


def test_a_new_declared_interval_is_recorded_and_the_deadline_stays(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a"], "<changefreq>daily</changefreq>")
    shop.ingest("/s.xml")
    due = pages(shop)["/a"].due_at
    shop.urlset("/s.xml", ["/a"], "<changefreq>always</changefreq>")
    shop.ingest("/s.xml")
    assert (pages(shop)["/a"].declared_interval_s, pages(shop)["/a"].due_at) == (3600, due)
    shop.urlset("/s.xml", ["/a"])
    shop.ingest("/s.xml")
    assert pages(shop)["/a"].declared_interval_s is None


def test_a_page_that_nobody_listed_is_attached_and_keeps_its_deadline(shop: Shop) -> None:
    page = make_page(shop.site, "/a")
    shop.urlset("/s.xml", ["/a"])
    tally = shop.ingest("/s.xml")
    assert owners(shop) == {"/a": "/s.xml"}
    assert pages(shop)["/a"].due_at == page.due_at
    assert (tally.created, tally.existing, tally.attached) == (0, 1, 1)


@pytest.mark.parametrize("order", [["/one.xml", "/two.xml"], ["/two.xml", "/one.xml"]])
def test_a_url_in_two_children_stays_with_its_first_owner_in_whatever_order_they_come(
    shop: Shop, order: list[str]
) -> None:
    shop.urlset("/one.xml", ["/a", "/1"], "<changefreq>daily</changefreq>")
    shop.urlset("/two.xml", ["/a", "/2"], "<changefreq>weekly</changefreq>")
    shop.index("/root.xml", ["/one.xml", "/two.xml"])
    first = shop.ingest("/root.xml")
    assert (first.duplicates, owners(shop)["/a"]) == (1, "/one.xml")
    before = pages(shop)["/a"]
    shop.index("/root.xml", order)
    shop.urlset("/one.xml", ["/a", "/1"], "<changefreq>hourly</changefreq>")
    again = shop.ingest("/root.xml")
    after = pages(shop)["/a"]
    assert (after.sitemap, after.due_at, after.declared_interval_s) == (before.sitemap, before.due_at, 3600)
    assert (again.attached, again.unlinked, again.duplicates) == (0, 0, 1)


def test_a_url_in_another_root_stays_with_the_first(shop: Shop) -> None:
    shop.urlset("/one.xml", ["/a"])
    shop.urlset("/two.xml", ["/a"])
    shop.ingest("/one.xml")
    shop.ingest("/two.xml")
    assert owners(shop) == {"/a": "/one.xml"}
    shop.urlset("/one.xml", [])
    assert shop.ingest("/one.xml").unlinked == 1
    assert shop.ingest("/two.xml").attached == 1
    assert owners(shop) == {"/a": "/two.xml"}


def test_a_page_that_moves_between_children_follows(shop: Shop) -> None:
    shop.urlset("/one.xml", ["/a", "/b"])
    shop.urlset("/two.xml", ["/c"])
    shop.index("/root.xml", ["/one.xml", "/two.xml"])
    shop.ingest("/root.xml")
    due = pages(shop)["/b"].due_at
    shop.urlset("/one.xml", ["/a"])
    shop.urlset("/two.xml", ["/b", "/c"], "<changefreq>daily</changefreq>")
    tally = shop.ingest("/root.xml")
    assert owners(shop) == {"/a": "/one.xml", "/b": "/two.xml", "/c": "/two.xml"}
    assert (pages(shop)["/b"].due_at, pages(shop)["/b"].declared_interval_s) == (due, 86400)
    assert (tally.attached, tally.unlinked) == (1, 0)


def test_gone_from_the_sitemap_unlinks_and_nothing_else(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a", "/b"])
    shop.ingest("/s.xml")
    due = pages(shop)["/b"].due_at
    shop.urlset("/s.xml", ["/a"])
    assert shop.ingest("/s.xml").unlinked == 1
    assert owners(shop) == {"/a": "/s.xml", "/b": None}
    assert pages(shop)["/b"].due_at == due


@pytest.mark.parametrize("route", [{"mode": "passthrough"}, None])
def test_filtered_by_routes_leaves_a_listed_page_alone(shop: Shop, route: dict[str, str] | None) -> None:
    shop.urlset("/s.xml", ["/cart/1", "/a"])
    shop.ingest("/s.xml")
    if route is None:
        only = Route.objects.create(site=shop.site, position=5, path="/a")
        RenderSchedule.objects.update(route=only)
        Route.objects.filter(site=shop.site, position=100).delete()
    else:
        Route.objects.create(site=shop.site, position=5, path="/cart/", **route)
    tally = shop.ingest("/s.xml")
    assert (tally.filtered, tally.unlinked) == (1, 0)
    assert owners(shop) == {"/cart/1": "/s.xml", "/a": "/s.xml"}


def test_a_page_follows_to_the_route_that_matches_it_now(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/news/1"])
    shop.ingest("/s.xml")
    news = Route.objects.create(site=shop.site, position=5, path="/news/", interval_s=3600)
    shop.ingest("/s.xml")
    assert pages(shop)["/news/1"].route == news


def test_only_the_site_s_own_hosts_count_in_any_scheme(shop: Shop) -> None:
    SiteHost.objects.create(site=shop.site, host="www.shop.test")
    make_site(host="other.test")
    shop.urlset(
        "/s.xml",
        ["http://www.shop.test/a", "https://www.shop.test/b", "https://shop.test/c", "https://other.test/d", "/e"],
    )
    tally = shop.ingest("/s.xml")
    assert set(pages(shop)) == {"/a", "/b", "/e"}
    assert tally.foreign == 2
    assert shop.last_run().samples["foreign"] == ["https://shop.test/c", "https://other.test/d"]


def test_every_listing_is_counted_once(shop: Shop) -> None:
    Route.objects.create(site=shop.site, position=5, path="/cart/", mode="passthrough")
    make_page(shop.site, "/known")
    shop.urlset(
        "/s.xml", ["/a", "/a#top", "/known", "/cart/1", "https://foreign.test/", "mailto:me@shop.test", "http://["]
    )
    tally = shop.ingest("/s.xml")
    counted = (tally.created, tally.existing, tally.duplicates, tally.filtered, tally.foreign, tally.invalid)
    assert counted == (1, 1, 1, 1, 1, 2)
    assert sum(counted) == tally.listed == 7
    run = shop.last_run()
    assert {"created", "duplicates", "filtered", "foreign", "invalid"} <= run.samples.keys()


def test_one_failing_child_does_not_lose_the_rest_and_unlinks_nothing(shop: Shop) -> None:
    shop.urlset("/1.xml", ["/a"])
    shop.urlset("/2.xml", ["/b"])
    shop.urlset("/3.xml", ["/c"])
    shop.index("/root.xml", ["/1.xml", "/2.xml", "/3.xml"])
    shop.ingest("/root.xml")
    shop.serve("/2.xml", "<!DOCTYPE html><title>Oops</title>", 503, "text/html")
    shop.urlset("/1.xml", [])
    shop.urlset("/3.xml", ["/c", "/d"])
    tally = shop.ingest("/root.xml")
    assert set(pages(shop)) == {"/a", "/b", "/c", "/d"}
    assert owners(shop)["/a"] == "/1.xml"
    assert (tally.failed_documents, tally.unlinked) == (1, 0)
    run = shop.last_run()
    assert run.state == "done"
    assert "1 of 4 documents failed" in run.error
    assert "/2.xml: It answered 503 (text/html) instead of 200: <!DOCTYPE html>" in run.error
    child = Sitemap.objects.get(url=shop.url("/2.xml"))
    assert "503" in child.last_error


def test_a_child_that_was_cut_off_is_a_failure_after_what_could_be_read(shop: Shop) -> None:
    listed = [f"/{number:03}" for number in range(100)]
    shop.urlset("/1.xml", listed)
    shop.index("/root.xml", ["/1.xml"])
    shop.urlset("/2.xml", ["/z"])
    shop.index("/root.xml", ["/1.xml", "/2.xml"])
    whole = "".join(f"<url><loc>{shop.url(path)}</loc></url>" for path in listed)
    shop.serve("/1.xml", f"<urlset>{whole}"[: len(whole) * 6 // 10])
    tally = shop.ingest("/root.xml")
    assert 50 <= len(pages(shop)) - 1 <= 60
    assert set(pages(shop)) <= {*listed, "/z"}
    assert tally.failed_documents == 1
    assert tally.notes == ["Not everything could be read, so no page was unlinked."]


def test_children_listed_before_an_index_was_cut_off_are_read(shop: Shop) -> None:
    shop.urlset("/1.xml", ["/a"])
    shop.serve("/root.xml", f"<sitemapindex><sitemap><loc>{shop.url('/1.xml')}</loc></sitemap><sitemap><loc>htt")
    with pytest.raises(IngestFailed, match="ends before </sitemapindex>"):
        shop.ingest("/root.xml")
    assert set(pages(shop)) == {"/a"}
    assert shop.last_run().state == "failed"


def test_if_every_child_fails_the_run_fails(shop: Shop) -> None:
    shop.index("/root.xml", ["/missing.xml"])
    with pytest.raises(IngestFailed, match=r"missing\.xml: It answered 500"):
        shop.ingest("/root.xml")


def test_an_index_that_lists_itself_ends(shop: Shop) -> None:
    shop.index("/root.xml", ["/root.xml", "/b.xml"])
    shop.index("/b.xml", ["/root.xml", "/1.xml"])
    shop.urlset("/1.xml", ["/a"])
    tally = shop.ingest("/root.xml")
    assert tally.documents == 3
    assert tally.findings.counts["sitemap listed more than once"] == 2
    assert shop.last_run().state == "done"


def test_two_addresses_that_redirect_to_one_document_are_read_once(shop: Shop) -> None:
    shop.urlset("/real.xml", ["/a"])
    for path in ("/x.xml", "/y.xml"):
        shop.server.expect_request(path).respond_with_data(status=301, headers={"Location": "/real.xml"})
    shop.index("/root.xml", ["/x.xml", "/y.xml"])
    tally = shop.ingest("/root.xml")
    assert (tally.listed, tally.created, tally.duplicates) == (1, 1, 0)


@pytest.mark.parametrize("child", ["mailto:x@shop.test", "https://shop.test/" + "x" * 2100])
def test_a_child_that_cannot_be_fetched_is_a_failed_document(shop: Shop, child: str) -> None:
    shop.urlset("/1.xml", ["/a"])
    shop.index("/root.xml", [child, "/1.xml"])
    tally = shop.ingest("/root.xml")
    assert (tally.failed_documents, tally.created) == (1, 1)


def test_a_sitemap_on_a_private_host_that_nobody_allowed_is_refused_with_what_to_do(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a"])
    shop.site.allowed_private_hosts = []
    shop.site.save()
    with pytest.raises(IngestFailed, match=r"is a loopback address.*allowed private hosts of the site"):
        shop.ingest("/s.xml")
    assert shop.server.log == []


def test_a_child_that_the_index_dropped_loses_its_pages_and_its_row(shop: Shop) -> None:
    shop.urlset("/1.xml", ["/a"])
    shop.urlset("/2.xml", ["/b"])
    shop.index("/root.xml", ["/1.xml", "/2.xml"])
    shop.ingest("/root.xml")
    shop.index("/root.xml", ["/1.xml"])
    assert shop.ingest("/root.xml").unlinked == 1
    assert owners(shop) == {"/a": "/1.xml", "/b": None}
    assert not Sitemap.objects.filter(url=shop.url("/2.xml")).exists()


@pytest.mark.parametrize(("before", "after", "unlinked"), [(20, 9, 0), (20, 10, 10), (19, 1, 18), (40, 0, 0)])
def test_a_sitemap_that_lost_more_than_half_of_twenty_or_more_unlinks_nothing(
    shop: Shop, before: int, after: int, unlinked: int
) -> None:
    shop.urlset("/s.xml", [f"/{number}" for number in range(before)])
    shop.ingest("/s.xml")
    shop.urlset("/s.xml", [f"/{number}" for number in range(after)])
    assert shop.ingest("/s.xml").unlinked == unlinked
    run = shop.last_run()
    assert run.state == "done"
    assert ("more than half" in run.error) == (unlinked == 0)


def test_the_shrink_guard_can_be_overruled(shop: Shop) -> None:
    shop.urlset("/s.xml", [f"/{number}" for number in range(30)])
    shop.ingest("/s.xml")
    shop.urlset("/s.xml", ["/1"])
    assert shop.ingest("/s.xml", allow_shrink=True).unlinked == 29


def test_limits_leave_the_run_incomplete_and_say_so(shop: Shop) -> None:
    shop.urlset("/1.xml", ["/a"])
    shop.urlset("/2.xml", ["/b"])
    shop.index("/root.xml", ["/1.xml", "/2.xml"])
    shop.ingest("/root.xml")
    tally = shop.ingest("/root.xml", walk_limits=WalkLimits(documents=2))
    assert tally.findings.counts["not read: more than 2 documents"] == 1
    assert owners(shop)["/b"] == "/2.xml"
    with pytest.raises(IngestFailed, match=r"larger than|more than"):
        shop.ingest("/1.xml", read_limits=ReadLimits(unpacked_bytes=20))


def test_progress_is_in_the_row_after_every_batch(shop: Shop) -> None:
    shop.urlset("/s.xml", [f"/{number}" for number in range(1200)])
    seen: list[tuple[int, int, str]] = []

    def look(_: object) -> None:
        run = SitemapRun.objects.get()
        seen.append((run.listed, run.created, run.state))

    shop.ingest("/s.xml", on_progress=look)
    assert seen[:3] == [(500, 500, "running"), (1000, 1000, "running"), (1200, 1200, "running")]


def test_an_error_of_ours_closes_the_run_and_comes_through(shop: Shop) -> None:
    shop.urlset("/s.xml", ["/a"])

    def fail(_: object) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        shop.ingest("/s.xml", on_progress=fail)
    run = shop.last_run()
    assert (run.state, run.error) == ("failed", "The run broke off: RuntimeError: no")
