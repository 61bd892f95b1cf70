"""When a page counts as ready, and what a page that never is costs."""

from __future__ import annotations

import time

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from renderqueue.rendering.job import Fault
from tests.rendering.conftest import Pages, Render, text_of
from tests.rendering.holding import Held

pytestmark = pytest.mark.chromium


def test_a_flag_set_to_false_is_waited_for_until_it_is_true(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<script>prerenderReady = false</script><p id=p>early</p>"
        "<script>setTimeout(() => { p.textContent = 'late'; prerenderReady = true }, 900)</script>",
    )
    done = render("/")
    assert '<p id="p">late</p>' in text_of(done)
    assert done.flagged


def test_a_flag_that_is_true_ends_the_wait_though_the_network_is_busy(
    serve: Pages, render: Render, origin: HTTPServer
) -> None:
    hold = Held(origin, "/slow")
    serve("/", "<script>fetch('/slow'); prerenderReady = true</script><p>done</p>")
    assert "<p>done</p>" in text_of(render("/"))
    hold.release()


def test_a_flag_never_set_is_a_failure_that_says_so(serve: Pages, render: Render) -> None:
    serve("/", "<script>prerenderReady = false</script><p>half</p>")
    done = render("/", timeout_s=1.5)
    assert done.fault is Fault.READY_FLAG
    assert done.html is None
    assert "prerenderReady" in done.detail


def test_without_a_flag_data_that_arrives_late_is_waited_for(serve: Pages, render: Render, origin: HTTPServer) -> None:
    def slow(request: Request) -> Response:
        time.sleep(0.8)  # the origin is slow: that is the case
        return Response("items")

    origin.expect_request("/data").respond_with_handler(slow)
    serve("/", "<p id=p></p><script>fetch('/data').then(r => r.text()).then(t => p.textContent = t)</script>")
    assert '<p id="p">items</p>' in text_of(render("/"))


def test_a_chain_of_requests_is_followed_to_its_end(serve: Pages, render: Render, origin: HTTPServer) -> None:
    for step in range(4):
        origin.expect_request(f"/step{step}").respond_with_data(str(step))
    serve(
        "/",
        "<p id=p></p><script>(async () => { let all = ''; for (let i = 0; i < 4; i++) {"
        "all += await (await fetch('/step' + i)).text(); await new Promise(r => setTimeout(r, 200)) }"
        "p.textContent = all })()</script>",
    )
    assert '<p id="p">0123</p>' in text_of(render("/"))


def test_an_event_stream_that_stays_open_does_not_hold_a_page(serve: Pages, render: Render, origin: HTTPServer) -> None:
    hold = Held(origin, "/events", content_type="text/event-stream")
    serve("/", "<script>new EventSource('/events')</script><p>shown</p>")
    began = time.monotonic()
    assert "<p>shown</p>" in text_of(render("/"))
    assert time.monotonic() - began < 6
    hold.release()


def test_a_clock_that_changes_the_dom_for_ever_does_not_hold_a_page(serve: Pages, render: Render) -> None:
    serve("/", "<p id=p>0</p><script>setInterval(() => p.textContent = performance.now(), 20)</script>")
    assert render("/").html is not None


def test_what_appears_shortly_after_parsing_is_taken(serve: Pages, render: Render) -> None:
    serve("/", "<p id=p></p><script>setTimeout(() => p.textContent = 'soon', 300)</script>")
    assert '<p id="p">soon</p>' in text_of(render("/"))


ENDLESS = {
    "requests": (
        "<script>(async () => { for (;;) await fetch('/ping') })()</script>",
        Fault.NEVER_QUIET,
    ),
    "a busy script": ("<script>for (;;);</script>", Fault.TIMEOUT),
    "a busy script after parsing": ("<script>setTimeout(() => { for (;;); }, 50)</script>", None),
    "dialogs": ("<script>for (;;) alert(1)</script>", Fault.TIMEOUT),
    "a dialog on leaving": ("<script>onbeforeunload = () => 'stay'; prerenderReady = false</script>", Fault.READY_FLAG),
    "growth": (
        "<script>prerenderReady = false;"
        "setInterval(() => document.body.append('x'.repeat(1000), document.createElement('p')), 1)</script>",
        Fault.READY_FLAG,
    ),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_a_page_without_an_end_is_ended_in_time(case: str, serve: Pages, render: Render, origin: HTTPServer) -> None:
    html, fault = ENDLESS[case]
    origin.expect_request("/ping").respond_with_data("pong")
    serve("/", html)
    began = time.monotonic()
    done = render("/", timeout_s=1.5)
    assert time.monotonic() - began < 6
    assert done.html is None
    assert done.fault is not None
    if fault is not None:
        assert done.fault is fault


def test_dialogs_and_popups_do_not_stop_a_page(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<p id=p></p><script>alert(1); const yes = confirm('?'); const said = prompt('!'); window.open('/');"
        "p.textContent = [yes, said].join(); prerenderReady = true</script>",
    )
    assert '<p id="p">false,</p>' in text_of(render("/"))
