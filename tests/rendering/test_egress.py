"""Nothing that a page does reaches an address that its render may not reach: not one packet, by any road (F115)."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from renderqueue.egress.policy import EgressPolicy
from renderqueue.egress.proxy import egress_listener
from renderqueue.rendering.engine import ARGUMENTS, Engine
from tests.rendering.conftest import Pages, Render, text_of

pytestmark = pytest.mark.chromium


class Witness:
    """TCP and UDP listeners on loopback, IPv4 and IPv6, at one port; they answer HTTP and note who came."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self._sockets: list[socket.socket] = []
        first = self._bind(socket.AF_INET, socket.SOCK_STREAM, 0)
        self.port = first.getsockname()[1]
        rest = [
            (socket.AF_INET, socket.SOCK_DGRAM),
            (socket.AF_INET6, socket.SOCK_STREAM),
            (socket.AF_INET6, socket.SOCK_DGRAM),
        ]
        for listener in [first, *(self._bind(family, kind, self.port) for family, kind in rest)]:
            threading.Thread(target=self._watch, args=[listener], daemon=True).start()

    def _bind(self, family: socket.AddressFamily, kind: socket.SocketKind, port: int) -> socket.socket:
        listener = socket.socket(family, kind)
        listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", port))
        if kind == socket.SOCK_STREAM:
            listener.listen(64)
        self._sockets.append(listener)
        return listener

    def _watch(self, listener: socket.socket) -> None:
        try:
            while True:
                if listener.type == socket.SOCK_DGRAM:
                    listener.recvfrom(4096)
                    self.hits.append("udp")
                    continue
                caller, _ = listener.accept()
                caller.settimeout(2)
                request = caller.recv(4096).split(b" ")
                self.hits.append(request[1].decode() if len(request) > 1 else "tcp")
                caller.sendall(
                    b"HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\n\r\n"
                )
                caller.close()
        except OSError:
            return  # the test is over

    def close(self) -> None:
        for listener in self._sockets:
            listener.shutdown(socket.SHUT_RDWR) if listener.type == socket.SOCK_STREAM else None
            listener.close()


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness()
    yield made
    made.close()


ROADS = """
<!DOCTYPE html><html><head>
%(links)s
</head><body>
<iframe src="%(base)s/iframe"></iframe><iframe srcdoc="<img src='%(base)s/srcdoc'>"></iframe>
<img src="%(base)s/img"><script src="%(base)s/script"></script><video src="%(base)s/video"></video>
<object data="%(base)s/object"></object><embed src="%(base)s/embed">
<form action="%(base)s/form" target="other" method="post"></form><iframe name="other"></iframe>
<script>
prerenderReady = false;
const base = %(json)s, ws = base.replace('http', 'ws');
const until = (start) => new Promise((done) => {
  setTimeout(done, 1500);
  try { start(done) } catch (error) { done() }
});
const worker = `fetch('${base}/worker').catch(() => 0).finally(() => postMessage(1));
  try { new WebSocket('${ws}/worker-ws') } catch (e) {}
  try { new WebTransport('${base.replace('http', 'https')}/worker-wt') } catch (e) {}`;
Promise.all([
  until((done) => fetch(base + '/fetch', { mode: 'no-cors' }).then(done, done)),
  until((done) => fetch('/hop', { mode: 'no-cors' }).then(done, done)),
  until((done) => { const x = new XMLHttpRequest(); x.onloadend = done; x.open('GET', base + '/xhr'); x.send() }),
  until((done) => { const s = new WebSocket(ws + '/ws'); s.onclose = s.onerror = done }),
  until((done) => { const e = new EventSource(base + '/events'); e.onerror = () => { e.close(); done() } }),
  until((done) => { new Worker(URL.createObjectURL(new Blob([worker]))).onmessage = done }),
  until((done) => { new SharedWorker(URL.createObjectURL(new Blob([worker]))) }),
  until((done) => navigator.serviceWorker.register('/sw.js').then(done, done)),
  until((done) => { navigator.sendBeacon(base + '/beacon'); document.forms[0].submit(); window.open(base + '/popup') }),
  until((done) => {
    const peer = new RTCPeerConnection({ iceServers: [{ urls: 'stun:' + base.slice(7) }] });
    peer.createDataChannel('x'); peer.createOffer().then((offer) => peer.setLocalDescription(offer));
  }),
  until((done) => {
    const inner = document.createElement('iframe'); document.body.append(inner);
    const peer = new inner.contentWindow.RTCPeerConnection({ iceServers: [{ urls: 'stun:' + base.slice(7) }] });
    peer.createDataChannel('x'); peer.createOffer().then((offer) => peer.setLocalDescription(offer));
  }),
  until((done) => { new WebTransport(base.replace('http', 'https') + '/wt').closed.catch(done) }),
]).then(() => { document.title = 'tried'; prerenderReady = true });
</script></body></html>
"""
RELATIONS = ("prefetch", "preconnect", "dns-prefetch", "preload", "icon", "stylesheet", "manifest", "prerender")


def page_of_all_roads(base: str) -> str:
    links = "".join(f'<link rel="{rel}" as="fetch" href="{base}/{rel}">' for rel in RELATIONS)
    rules = json.dumps({"prefetch": [{"urls": [f"{base}/rules"]}], "prerender": [{"urls": [f"{base}/rules2"]}]})
    links += f'<script type="speculationrules">{rules}</script>'
    return ROADS % {"base": base, "links": links, "json": json.dumps(base)}


HOSTS = ("127.0.0.1", "localhost", "[::1]")


@pytest.mark.parametrize("host", HOSTS)
def test_no_road_leads_to_a_host_that_is_not_allowed(
    host: str, serve: Pages, render: Render, origin: HTTPServer, witness: Witness
) -> None:
    base = f"http://{host}:{witness.port}"
    origin.expect_request("/hop").respond_with_data("", status=302, headers={"Location": f"{base}/redirect"})
    origin.expect_request("/sw.js").respond_with_data(f"fetch('{base}/sw')", content_type="text/javascript")
    serve("/", page_of_all_roads(base))
    assert "<title>tried</title>" in text_of(render("/"))
    assert witness.hits == []


def test_the_roads_are_real(serve: Pages, render: Render, origin: HTTPServer, witness: Witness) -> None:
    """With the host allowed the same page reaches it: or the test above would prove nothing."""
    base = f"http://127.0.0.1:{witness.port}"
    origin.expect_request("/hop").respond_with_data("", status=302, headers={"Location": f"{base}/redirect"})
    origin.expect_request("/sw.js").respond_with_data("", content_type="text/javascript")
    serve("/", page_of_all_roads(base))
    render("/", allow=f"127.0.0.1:{witness.port}")
    roads = {"/fetch", "/redirect", "/xhr", "/ws", "/events", "/worker", "/worker-ws", "/iframe", "/img", "/beacon"}
    assert roads <= set(witness.hits)
    assert "udp" not in witness.hits


def test_a_top_level_redirect_to_a_forbidden_host_is_not_followed(
    render: Render, origin: HTTPServer, witness: Witness
) -> None:
    target = f"http://127.0.0.1:{witness.port}/"
    origin.expect_request("/").respond_with_data("", status=302, headers={"Location": target})
    assert render("/").location == target
    assert witness.hits == []


STUN = """
<script>
const peer = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:%(port)d' }] });
peer.createDataChannel('x');
peer.createOffer().then((offer) => peer.setLocalDescription(offer));
try { new WebTransport('https://127.0.0.1:%(port)d/') } catch (error) {}
peer.onicegatheringstatechange = () => { if (peer.iceGatheringState === 'complete') document.title = 'tried' };
setTimeout(() => document.title = 'tried', 2500);
</script>
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_the_switches_alone_keep_webrtc_behind_the_proxy(
    guarded: bool, chromium_path: str, serve: Pages, origin: HTTPServer, witness: Witness
) -> None:
    """The second wall, without the first (the script that takes RTCPeerConnection away); and, to show that the
    listener would see it, without either."""
    serve("/", STUN % {"port": witness.port})
    arguments = ARGUMENTS if guarded else [part for part in ARGUMENTS if "webrtc" not in part]

    async def visit() -> None:
        engine = await Engine.launch(Path(chromium_path), arguments=arguments)
        try:
            async with egress_listener(EgressPolicy(frozenset({f"{origin.host}:{origin.port}"}))) as listener:
                context = await engine.browser.new_context(proxy={"server": listener.url})
                page = await context.new_page()
                await page.goto(origin.url_for("/"))
                await page.wait_for_function("document.title === 'tried'", timeout=15_000)
        finally:
            await engine.close()

    asyncio.run(visit())
    assert ("udp" in witness.hits) is not guarded


def test_a_page_and_its_frames_have_nothing_that_talks_past_a_proxy(serve: Pages, render: Render) -> None:
    serve(
        "/",
        "<p id=p></p><iframe id=blank></iframe><iframe id=doc srcdoc='<p>'></iframe><script>onload = () => {"
        "const made = document.createElement('iframe'); document.body.append(made);"
        "p.textContent = [window, blank.contentWindow, doc.contentWindow, made.contentWindow].map((frame) =>"
        "[typeof frame.RTCPeerConnection, typeof frame.webkitRTCPeerConnection, typeof frame.WebTransport]);"
        "prerenderReady = true }</script>",
    )
    assert f'<p id="p">{",".join(["undefined"] * 12)}</p>' in text_of(render("/"))


def test_without_a_proxy_of_its_own_a_context_reaches_nothing(
    chromium_path: str, origin: HTTPServer, serve: Pages, witness: Witness
) -> None:
    async def visit() -> list[str]:
        engine = await Engine.launch(Path(chromium_path))
        page = await (await engine.browser.new_context()).new_page()
        errors = []
        for host in HOSTS:
            try:
                await page.goto(f"http://{host}:{witness.port}/", timeout=5_000)
            except Exception as error:
                errors.append(str(error))
        await engine.close()
        return errors

    errors = asyncio.run(visit())
    assert len(errors) == len(HOSTS)
    assert all("ERR_PROXY_CONNECTION_FAILED" in error for error in errors)
    assert witness.hits == []


def test_a_name_is_looked_up_by_the_guard_alone(serve: Pages, render: Render, origin: HTTPServer) -> None:
    """The browser's own resolver answers nothing: only the guard's does, which checks what it dials (F116)."""
    serve("/", "<p>by name</p>")
    assert render(f"http://localhost:{origin.port}/").fault is not None
    assert "by name" in text_of(render(f"http://localhost:{origin.port}/", allow=f"localhost:{origin.port}"))
