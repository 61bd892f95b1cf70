"""What of a page is kept: all that a crawler without scripts needs, and nothing that runs."""

from __future__ import annotations

import pytest
from pytest_httpserver import HTTPServer

from renderqueue.rendering import contract
from renderqueue.rendering.job import Fault
from tests.rendering.conftest import Pages, Render, text_of

pytestmark = pytest.mark.chromium

READY = "<script>prerenderReady = true</script>"


def test_executable_scripts_go_and_data_blocks_stay(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<!DOCTYPE html><html><head>"
        '<script type="application/ld+json">{"@type":"Product"}</script>'
        '<script type="application/json" id="data">{"a":1}</script>'
        "<script>/* application/ld+json */ prerenderReady = true</script>"
        "<script\n src=/a.js></script>"
        "<script type=module src=/m.js></script>"
        '<script type="Text/JavaScript; charset=utf-8">1</script>'
        '<script type="importmap">{}</script><script type="speculationrules">{}</script>'
        "<script language=JavaScript>2</script >"
        "</head><body><template><script>3</script><b>kept</b></template><svg><script>4</script></svg></body></html>",
    )
    text = text_of(render("/"))
    assert text.count("<script") == 2
    assert '<script type="application/ld+json">{"@type":"Product"}</script>' in text
    assert '<script type="application/json" id="data">{"a":1}</script>' in text
    assert "<template><b>kept</b></template>" in text


def test_links_that_only_fetch_scripts_go(serve: Pages, render: Render) -> None:
    serve(
        "/",
        '<link rel="preload" as="script" href="/a.js"><link rel=modulepreload href="/b.js">'
        '<link rel="prefetch" as="script" href="/c.js"><link rel="preload" as="image" href="/d.png">'
        '<link rel="canonical" href="/here">' + READY,
    )
    text = text_of(render("/"))
    assert ".js" not in text
    assert "/d.png" in text
    assert '<link rel="canonical" href="/here">' in text


def test_noscript_goes_with_the_scripts(serve: Pages, render: Render) -> None:
    serve("/", "<noscript>Please enable JavaScript</noscript><p>content</p>" + READY)
    text = text_of(render("/"))
    assert "noscript" not in text
    assert "<p>content</p>" in text


def test_event_handlers_go_and_attributes_that_only_look_like_them_stay(serve: Pages, render: Render) -> None:
    serve("/", '<body onload="go()"><p onclick="go()" ongoing="yes" data-on="1">x</p>' + READY)
    assert '<p ongoing="yes" data-on="1">x</p>' in text_of(render("/"))
    assert "go()" not in text_of(render("/"))


def test_rules_that_exist_only_in_the_style_sheet_are_written_out(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<style id=empty></style><style id=partly>a { color: red }</style><style id=whole>b { color: blue }</style>"
        '<script>empty.sheet.insertRule(\'.in { content: "</sty" "le>" }\');'
        "partly.sheet.insertRule('p { margin: 0px }', 1);"
        "const made = new CSSStyleSheet(); made.replaceSync('.made { top: 0px }');"
        "document.adoptedStyleSheets = [made]; prerenderReady = true</script>",
    )
    text = text_of(render("/"))
    assert '<style id="empty">.in {' in text
    assert "a { color: red; }\np { margin: 0px; }" in text
    assert '<style id="whole">b { color: blue }</style>' in text
    assert "<style>.made { top: 0px; }</style></head>" in text


def test_the_doctype_stays_and_none_is_added(serve: Pages, render: Render) -> None:
    old = (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">'
    )
    serve("/old", old + READY)
    serve("/none", READY)
    assert text_of(render("/old")).startswith(old)
    assert text_of(render("/none")) == "<html><head></head><body></body></html>"


def test_what_the_page_redefined_does_not_reach_our_scripts(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<p>here</p><script>Array.from = () => []; Element.prototype.remove = () => {};"
        "Document.prototype.querySelectorAll = () => []; Object.prototype.toJSON = () => 'broken';"
        "Object.defineProperty(Element.prototype, 'outerHTML', { get: () => 'broken' });"
        "prerenderReady = true</script>",
    )
    text = text_of(render("/"))
    assert "<p>here</p>" in text
    assert "script" not in text


def test_copying_a_custom_element_does_not_run_it_again(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<x-a></x-a><script>customElements.define('x-a', class extends HTMLElement { constructor() { super();"
        "this.setAttribute('made', 1 + Number(this.getAttribute('made'))) } }); prerenderReady = true</script>",
    )
    assert '<x-a made="1"></x-a>' in text_of(render("/"))


def test_the_text_is_utf8_whatever_the_origin_sent(serve: Pages, render: Render) -> None:
    serve(
        "/",
        ("<p>Gr\u00fc\u00dfe</p>" + READY).encode("latin-1").decode("latin-1"),
        content_type="text/html; charset=utf-8",
    )
    done = render("/")
    assert "Gr\u00fc\u00dfe" in text_of(done)
    assert done.headers["content-type"] == "text/html; charset=utf-8"


def test_a_page_that_grew_too_large_is_not_kept(serve: Pages, render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_HTML_CHARS", 20_000)
    serve("/", "<p id=p></p><script>p.textContent = 'x'.repeat(30000); prerenderReady = true</script>")
    done = render("/")
    assert done.fault is Fault.TOO_LARGE
    assert done.html is None


def test_same_origin_refusals_are_counted_and_foreign_ones_are_not(
    serve: Pages, render: Render, origin: HTTPServer
) -> None:
    origin.expect_request("/app.js").respond_with_data("", status=403)
    origin.expect_request("/me").respond_with_data("", status=401)
    origin.expect_request("/missing.png").respond_with_data("", status=404)
    serve(
        "/",
        "<script src=/app.js></script><img src=/missing.png><script src=http://10.0.0.1/foreign.js></script>"
        "<script>fetch('/me').then(() => prerenderReady = true)</script>",
    )
    done = render("/")
    assert {(part.resource_type, part.why) for part in done.refused} == {("script", "403"), ("fetch", "401")}
    assert done.refused_count == 2
