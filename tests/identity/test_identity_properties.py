"""What holds for every URL, not only for those somebody thought of."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from ada_url import URL
from hypothesis import given, settings
from hypothesis import strategies as st

from renderqueue.identity import KeyRules, RouteRule, UrlError, canonical_url

FRAGMENTS = st.sampled_from(
    [
        *"/?&=+,:@;!$'()*|[]{}^`\\~-._% #<>\"aAzZ09é漢\t",
        *(
            "//",
            "/../",
            "/./",
            "%2e%2e",
            "%2E/",
            "%",
            "%2",
            "%%34%31",
            "%25",
            "%2541",
            "%2F",
            "%2f",
            "%3a",
            "%E4",
        ),
        *(
            "%c3%a9",
            "%41",
            "%7e",
            "%26",
            "%3D",
            "%20",
            "%2B",
            "%00",
            "%0a",
            "%5c",
            "%7C",
            "utm_source=1",
            "a=",
            "&&",
        ),
    ]
)
TAILS = st.one_of(st.lists(FRAGMENTS, max_size=14).map("".join), st.text(max_size=30))
HOSTS = st.sampled_from(["shop.test", "SHOP.test:443", "www.shop.test:8443", "bücher.test", "[::1]", "127.1"])
URLS = st.builds(
    lambda scheme, host, tail: f"{scheme}://{host}/{tail}", st.sampled_from(["http", "https"]), HOSTS, TAILS
)
RULES = st.builds(
    lambda names: RouteRule("prefix", "/", "prerender", tuple(names)),
    st.sampled_from([["*"], [], ["a"], ["*", "utm_source"], ["é", ""]]),
)
KEY_RULES = st.builds(KeyRules, st.booleans(), st.booleans())

THOROUGH = settings(max_examples=600, deadline=None)


def canonical_or_none(url: str, rule: RouteRule, rules: KeyRules) -> str | None:
    try:
        return canonical_url(url, rule, rules)
    except UrlError:
        return None


@THOROUGH
@given(URLS, RULES, KEY_RULES)
def test_the_canonical_url_is_a_fixed_point_and_what_a_browser_would_send(
    url: str, rule: RouteRule, rules: KeyRules
) -> None:
    canonical = canonical_or_none(url, rule, rules)
    if canonical is None:
        return
    assert canonical_url(canonical, rule, rules) == canonical
    assert URL(canonical).href == canonical
    assert canonical.isascii()
    assert not set(canonical) & set(' "<>\\^`{|}#')


def decoded_segments(url: str) -> tuple[str, str, list[bytes]]:
    parsed = URL(url)
    return parsed.protocol, parsed.host, [unquote_to_bytes(part) for part in parsed.pathname.split("/")]


def decoded_query(url: str) -> dict[bytes, list[bytes | None]]:
    """What a server reads: name -> its values in order; None is a flag without "="."""
    values: dict[bytes, list[bytes | None]] = {}
    for part in URL(url).search.removeprefix("?").split("&"):
        name, equals, value = part.replace("+", " ").partition("=")
        if part:
            values.setdefault(unquote_to_bytes(name), []).append(unquote_to_bytes(value) if equals else None)
    return values


KEEP_ALL = RouteRule("prefix", "/", "prerender", ("*", "utm_source"))


@THOROUGH
@given(URLS)
def test_a_server_reads_the_same_from_the_canonical_url(url: str) -> None:
    """The canonical form keeps the decoded path segments and the decoded parameters, so that no two URLs that
    differ in them can share it."""
    canonical = canonical_or_none(url, KEEP_ALL, KeyRules())
    if canonical is None:
        return
    assert decoded_segments(canonical) == decoded_segments(url)
    assert decoded_query(canonical) == decoded_query(url)


@THOROUGH
@given(HOSTS, TAILS, TAILS, KEY_RULES)
def test_urls_whose_decoded_path_segments_differ_are_never_merged(
    host: str, one: str, other: str, rules: KeyRules
) -> None:
    first, second = f"https://{host}/{one}", f"https://{host}/{other}"
    a, b = (canonical_or_none(url, KEEP_ALL, KeyRules(fold_plus=rules.fold_plus)) for url in (first, second))
    if a is not None and a == b:
        assert decoded_segments(first) == decoded_segments(second)
