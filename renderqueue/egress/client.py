"""HTTP through the egress guard: bounded in bytes and in total time, redirects followed hop by hop.

Every request of one fetch, redirects included, goes through one listener with one policy, by name: the guard
resolves, nobody else. The environment (HTTP_PROXY, NO_PROXY, .netrc) changes nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import BinaryIO

import httpx

from renderqueue.egress.decoding import EncodingError, decoder_for
from renderqueue.egress.policy import EgressPolicy
from renderqueue.egress.proxy import EgressListener, Resolver, egress_listener

REDIRECTS = frozenset({301, 302, 303, 307, 308})
FOLLOWED_REDIRECTS = 5
_DEFAULT_HEADERS = {"accept": "*/*", "user-agent": "renderqueue"}
_CREDENTIALS = ("authorization", "cookie", "proxy-authorization")
_TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")


class Problem(StrEnum):
    """Why there is no answer."""

    BAD_URL = "bad_url"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BROKEN = "broken"


class FetchFailed(Exception):
    """There is no complete answer. The message is a sentence for people that names the host; `url` is the hop
    that failed, `problem` its kind."""

    def __init__(self, problem: Problem, url: str, message: str) -> None:
        super().__init__(message)
        self.problem = problem
        self.url = url


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete answer with any status. `url` is where it came from, after redirects; the body is decoded, and
    headers that describe its transfer are gone."""

    status: int
    headers: httpx.Headers
    body: bytes
    url: str


@dataclass(frozen=True, slots=True)
class Downloaded:
    """As `Fetched`, with the body in the caller's file: `size` decoded bytes."""

    status: int
    headers: httpx.Headers
    size: int
    url: str


async def fetch(
    url: str,
    policy: EgressPolicy,
    *,
    max_bytes: int,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    follow_same_policy_redirects: int = FOLLOWED_REDIRECTS,
    method: str = "GET",
    resolve: Resolver | None = None,
) -> Fetched:
    """Fetch into memory: at most `max_bytes` of decoded body within `timeout_s`, redirects and body included.

    Follows up to `follow_same_policy_redirects` redirects; with 0 a redirect is the answer. Raises FetchFailed."""
    parts: list[bytes] = []
    exchange = _Exchange(policy, max_bytes, timeout_s, dict(headers or {}), follow_same_policy_redirects, method)
    answer = await exchange.run(url, parts.append, resolve)
    return Fetched(answer.status, answer.headers, b"".join(parts), answer.url)


async def download(
    url: str,
    policy: EgressPolicy,
    file: BinaryIO,
    *,
    max_bytes: int,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    follow_same_policy_redirects: int = FOLLOWED_REDIRECTS,
    resolve: Resolver | None = None,
) -> Downloaded:
    """As `fetch`, into a file at its present position, in bounded memory."""
    exchange = _Exchange(policy, max_bytes, timeout_s, dict(headers or {}), follow_same_policy_redirects, "GET")
    return await exchange.run(url, file.write, resolve)


def fetch_blocking(
    url: str,
    policy: EgressPolicy,
    *,
    max_bytes: int,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    follow_same_policy_redirects: int = FOLLOWED_REDIRECTS,
) -> Fetched:
    """`fetch` for a thread without an event loop, such as a Celery task's."""
    return asyncio.run(
        fetch(
            url,
            policy,
            max_bytes=max_bytes,
            timeout_s=timeout_s,
            headers=headers,
            follow_same_policy_redirects=follow_same_policy_redirects,
        )
    )


def download_blocking(
    url: str,
    policy: EgressPolicy,
    file: BinaryIO,
    *,
    max_bytes: int,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    follow_same_policy_redirects: int = FOLLOWED_REDIRECTS,
) -> Downloaded:
    """`download` for a thread without an event loop."""
    return asyncio.run(
        download(
            url,
            policy,
            file,
            max_bytes=max_bytes,
            timeout_s=timeout_s,
            headers=headers,
            follow_same_policy_redirects=follow_same_policy_redirects,
        )
    )


@dataclass(frozen=True, slots=True)
class _Exchange:
    policy: EgressPolicy
    max_bytes: int
    timeout_s: float
    headers: dict[str, str]
    redirects: int
    method: str

    async def run(self, url: str, sink: Callable[[bytes], object], resolve: Resolver | None) -> Downloaded:
        current = [url]
        try:
            async with asyncio.timeout(self.timeout_s):
                async with egress_listener(self.policy, resolve=resolve) as listener:
                    return await self._hops(current, listener, sink)
        except TimeoutError:
            host = _host_of(current[-1])
            message = f"{host} did not answer completely within {self.timeout_s:g} s."
            raise FetchFailed(Problem.TIMEOUT, current[-1], message) from None

    async def _hops(self, hops: list[str], listener: EgressListener, sink: Callable[[bytes], object]) -> Downloaded:
        headers = {**_DEFAULT_HEADERS, **{name.lower(): value for name, value in self.headers.items()}}
        headers["accept-encoding"] = "gzip"
        # The transport instead of a client: a client refuses redirects that it cannot follow, even when it is
        # told not to follow any.
        async with httpx.AsyncHTTPTransport(proxy=listener.url, verify=_tls()) as transport:
            while True:
                target = _parsed(hops[-1])
                try:
                    answer = await self._hop(transport, target, headers, sink)
                except httpx.HTTPError as error:
                    raise _explained(error, hops[-1], listener) from error
                if isinstance(answer, Downloaded):
                    return answer
                if len(hops) > self.redirects:
                    message = f"{_host_of(hops[0])} redirects more than {self.redirects} times."
                    raise FetchFailed(Problem.TOO_MANY_REDIRECTS, hops[-1], message)
                if (answer.scheme, answer.netloc) != (target.scheme, target.netloc):
                    headers = {name: value for name, value in headers.items() if name not in _CREDENTIALS}
                hops.append(str(answer))

    async def _hop(
        self,
        transport: httpx.AsyncHTTPTransport,
        target: httpx.URL,
        headers: dict[str, str],
        sink: Callable[[bytes], object],
    ) -> Downloaded | httpx.URL:
        """One request: the answer, or where it redirects to."""
        timeout = httpx.Timeout(self.timeout_s).as_dict()
        request = httpx.Request(self.method, target, headers=headers, extensions={"timeout": timeout})
        response = await transport.handle_async_request(request)
        response.request = request
        try:
            if response.status_code in REDIRECTS and "location" in response.headers and self.redirects:
                return _joined(target, response.headers["location"])
            size = await self._body(response, sink)
        finally:
            await response.aclose()
        kept = [(name, value) for name, value in response.headers.multi_items() if name not in _TRANSFER_HEADERS]
        return Downloaded(response.status_code, httpx.Headers(kept), size, str(target))

    async def _body(self, response: httpx.Response, sink: Callable[[bytes], object]) -> int:
        url = str(response.request.url)
        size = 0
        try:
            decoder = decoder_for(response.headers.get("content-encoding", ""))
            async for raw in response.aiter_raw(64 * 1024):
                for piece in decoder.decode(raw):
                    size += len(piece)
                    self._check_size(max(size, response.num_bytes_downloaded), url)
                    sink(piece)
                self._check_size(response.num_bytes_downloaded, url)
            if self.method != "HEAD" and (rest := decoder.finish()):
                size += len(rest)
                sink(rest)
        except EncodingError as error:
            raise FetchFailed(Problem.BROKEN, url, f"{_host_of(url)}: {error}") from None
        return size

    def _check_size(self, size: int, url: str) -> None:
        if size > self.max_bytes:
            message = f"{_host_of(url)} sent more than {self.max_bytes:,} bytes, the limit for this."
            raise FetchFailed(Problem.TOO_LARGE, url, message)


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise FetchFailed(Problem.BAD_URL, url, f"{url[:200]!r} is not a URL: {error}.") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise FetchFailed(Problem.BAD_URL, url, f"{url[:200]!r} is not an absolute http or https URL.")
    if parsed.userinfo:
        raise FetchFailed(Problem.BAD_URL, url, f"The URL for {parsed.host} contains a user name; leave it out.")
    return parsed.copy_with(fragment=None)


def _joined(base: httpx.URL, location: str) -> httpx.URL:
    try:
        return base.join(location)
    except httpx.InvalidURL:
        message = f"{base.host} redirects to {location[:200]!r}, which is not a URL."
        raise FetchFailed(Problem.BAD_URL, str(base), message) from None


def _explained(error: httpx.HTTPError, url: str, listener: EgressListener) -> FetchFailed:
    """The guard knows why a connection failed; httpx knows the rest."""
    host = _host_of(url)
    if isinstance(error, httpx.ProxyError) and listener.refused:
        refused_host, port, reason = listener.refused[-1]
        return FetchFailed(Problem.REFUSED, url, f"{refused_host}:{port} may not be reached: {reason}.")
    if isinstance(error, httpx.ProxyError) and listener.failed:
        return FetchFailed(Problem.UNREACHABLE, url, f"{host} cannot be reached: {listener.failed[-1][2]}.")
    if isinstance(error, httpx.TimeoutException):
        return FetchFailed(Problem.TIMEOUT, url, f"{host} did not answer in time.")
    if isinstance(error, httpx.ConnectError):
        return FetchFailed(Problem.UNREACHABLE, url, f"{host} cannot be reached: {error}.")
    return FetchFailed(Problem.BROKEN, url, f"{host} broke off its answer: {error or type(error).__name__}.")


def _host_of(url: str) -> str:
    try:
        return httpx.URL(url).netloc.decode("ascii") or url[:200]
    except httpx.InvalidURL:
        return url[:200]


@cache
def _tls() -> ssl.SSLContext:
    """Made once: it costs tens of milliseconds. The system's authorities count beside certifi's."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context
