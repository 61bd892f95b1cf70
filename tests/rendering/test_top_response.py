"""What the address itself answers: kept as it is, never followed, never mistaken for a page."""

from __future__ import annotations

import pytest
from pytest_httpserver import HTTPServer

from renderqueue.rendering.job import Fault
from tests.rendering.conftest import Pages, Render, text_of

pytestmark = pytest.mark.chromium


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_kept_and_not_followed(status: int, render: Render, origin: HTTPServer) -> None:
    origin.expect_request("/a/b").respond_with_data("", status=status, headers={"Location": "c/?q=1"})
    done = render("/a/b")
    assert (done.status, done.location, done.html) == (status, origin.url_for("/a/c/?q=1"), None)
    assert "/a/c/" not in [request.path for request, _ in origin.log]


def test_a_redirect_from_an_awkward_address_is_seen(render: Render, origin: HTTPServer) -> None:
    origin.expect_request("/o'neil").respond_with_data("", status=301, headers={"Location": "/b"})
    assert render("/o'neil").location == origin.url_for("/b")


def test_a_redirect_to_another_host_is_not_visited(render: Render, origin: HTTPServer) -> None:
    origin.expect_request("/").respond_with_data("", status=302, headers={"Location": "http://10.1.2.3/x"})
    assert render("/").location == "http://10.1.2.3/x"


def test_a_redirect_to_itself_is_a_failure(render: Render, origin: HTTPServer) -> None:
    origin.expect_request("/a").respond_with_data("", status=302, headers={"Location": "/a", "Set-Cookie": "x=1"})
    assert render("/a").fault is Fault.REDIRECT_LOOP


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 503])
def test_an_error_is_kept_without_running_its_page(status: int, serve: Pages, render: Render) -> None:
    serve("/", "<script>for (;;);</script>", status=status, headers={"Retry-After": "120"})
    done = render("/", timeout_s=5)
    assert (done.status, done.html, done.fault) == (status, None, None)
    assert done.headers["retry-after"] == "120"


@pytest.mark.parametrize(
    ("content_type", "headers"),
    [
        ("application/pdf", {}),
        ("application/json", {}),
        ("image/png", {}),
        ("text/plain", {}),
        ("text/html", {"Content-Disposition": "attachment; filename=x.html"}),
    ],
)
def test_what_is_not_html_is_not_a_page(
    content_type: str, headers: dict[str, str], render: Render, origin: HTTPServer
) -> None:
    origin.expect_request("/file").respond_with_data(b"0" * 2_000, content_type=content_type, headers=headers)
    done = render("/file")
    assert done.fault is Fault.NOT_HTML
    assert done.html is None


def test_only_headers_that_mean_something_for_a_copy_are_kept(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<p>x</p>",
        headers={"X-Robots-Tag": "noarchive", "Link": "</a>; rel=canonical", "Content-Language": "de",
                 "Set-Cookie": "session=1", "Cache-Control": "no-store", "Server": "s"},
    )  # fmt: skip
    assert set(render("/").headers) == {"content-type", "content-language", "link", "x-robots-tag"}


def test_the_page_may_say_its_own_status_and_headers(serve: Pages, render: Render) -> None:
    serve(
        "/gone",
        '<meta name="prerender-status-code" content="404">'
        '<meta name="prerender-header" content="X-Robots-Tag: noindex">'
        '<meta name="prerender-header" content="Set-Cookie: a=b"><script>prerenderReady = true</script>',
    )
    serve(
        "/moved",
        '<meta name="prerender-status-code" content="301"><meta name="prerender-header" content="Location: new?x=1">'
        "<script>prerenderReady = true</script>",
    )
    gone, moved = render("/gone"), render("/moved")
    assert gone.status == 404
    assert gone.headers["x-robots-tag"] == "noindex"
    assert "set-cookie" not in gone.headers
    assert (moved.status, moved.html) == (301, None)
    assert moved.location is not None
    assert moved.location.endswith("/new?x=1")


def test_a_page_that_leads_elsewhere_by_script_fails_and_says_where(serve: Pages, render: Render) -> None:
    serve("/", "<script>location.replace('/elsewhere')</script>")
    done = render("/")
    assert done.fault is Fault.NAVIGATED_AWAY
    assert "/elsewhere" in done.detail


def test_a_page_may_reload_itself_but_not_for_ever(serve: Pages, render: Render) -> None:
    serve("/once", "<p>x</p><script>if (!document.cookie) { document.cookie = 'a=1'; location.reload() }</script>")
    serve("/ever", "<script>location.reload()</script>")
    assert "<p>x</p>" in text_of(render("/once"))
    assert render("/ever").fault is Fault.NAVIGATED_AWAY


def test_an_address_nobody_serves_is_unreachable(render: Render, unused_port: int) -> None:
    done = render(f"http://127.0.0.1:{unused_port}/", allow=f"127.0.0.1:{unused_port}")
    assert done.fault is Fault.UNREACHABLE
    assert done.status is None


def test_an_address_that_may_not_be_reached_says_what_an_operator_can_do(render: Render) -> None:
    done = render("http://10.9.8.7/")
    assert done.fault is Fault.EGRESS_REFUSED
    assert "10.9.8.7" in done.detail
    assert "allowed private hosts" in done.detail


@pytest.mark.parametrize(("device", "mark", "width"), [("desktop", "X11", "1366"), ("mobile", "Mobile", "412")])
def test_each_device_has_its_own_screen_and_user_agent(
    device: str, mark: str, width: str, serve: Pages, render: Render, origin: HTTPServer
) -> None:
    serve(
        "/",
        "<meta name=viewport content='width=device-width'><p id=p></p>"
        "<script>p.textContent = innerWidth; prerenderReady = true</script>",
    )
    assert f'<p id="p">{width}</p>' in text_of(render("/", device=device))
    agent = origin.log[0][0].headers["User-Agent"]
    assert mark in agent
    assert "Headless" not in agent
    assert " renderqueue/" in agent


def test_a_render_asks_the_origin_for_the_page_only(serve: Pages, render: Render, origin: HTTPServer) -> None:
    serve("/", "<p>x</p>")
    render("/")
    assert [request.path for request, _ in origin.log] == ["/"]
