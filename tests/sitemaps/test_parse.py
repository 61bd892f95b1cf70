"""Field cases F73-F88 and F95, each from the bytes that a server sent."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderqueue.sitemaps.errors import NotASitemap, SitemapDamaged, SitemapTooLarge
from renderqueue.sitemaps.parse import Entry, Kind, ReadLimits, SitemapReader, Source

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
SOURCE = Source("https://shop.test/maps/sitemap.xml", 200, "application/xml")


def read(document: str | bytes, source: Source = SOURCE, limits: ReadLimits | None = None) -> SitemapReader:
    """Read a whole document in small chunks; the entries are in `listed`."""
    reader = SitemapReader(source, limits)
    data = document.encode() if isinstance(document, str) else document
    chunks = (bytes(chunk) for chunk in itertools.batched(data, 7))
    reader.listed = list(reader.read(chunks))  # type: ignore[attr-defined]
    return reader


def locs(document: str | bytes, source: Source = SOURCE) -> list[str]:
    return [entry.loc for entry in read(document, source).listed]  # type: ignore[attr-defined]


def urlset(*urls: str, attributes: str = NAMESPACE) -> str:
    return f"<urlset {attributes}>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>"


PLAIN = urlset("https://shop.test/a", "https://shop.test/b")
BOTH = ["https://shop.test/a", "https://shop.test/b"]


def test_an_entry_has_its_values() -> None:
    reader = read(
        f'<?xml version="1.0" encoding="UTF-8"?><urlset {NAMESPACE}><url><loc> https://shop.test/a\n</loc>'
        "<lastmod>2024-03-09</lastmod><changefreq>Weekly </changefreq><priority>0.8</priority></url></urlset>"
    )
    (entry,) = reader.listed  # type: ignore[attr-defined]
    assert isinstance(entry, Entry)
    assert entry.lastmod is not None
    assert (entry.loc, entry.lastmod.isoformat(), entry.changefreq, entry.priority) == (
        "https://shop.test/a",
        "2024-03-09T00:00:00+00:00",
        "weekly",
        0.8,
    )
    assert reader.kind is Kind.PAGES
    assert reader.findings.total() == 0


def test_an_index_lists_sitemaps() -> None:
    reader = read(f"<sitemapindex {NAMESPACE}><sitemap><loc>https://shop.test/1.xml</loc></sitemap></sitemapindex>")
    assert reader.kind is Kind.SITEMAPS
    assert reader.entries_read == 1


@pytest.mark.parametrize(
    "before", ["\n\n", "\ufeff", "\ufeff\r\n ", "<?xml version='1.0'?>\n", '\n<?xml version="1.0"?>']
)
def test_blank_lines_and_marks_before_the_declaration(before: str) -> None:
    assert locs(before + PLAIN) == BOTH


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(PLAIN.encode()),
        gzip.compress(gzip.compress(PLAIN.encode())),
        gzip.compress(PLAIN[:20].encode()) + gzip.compress(PLAIN[20:].encode()),
    ],
)
def test_gzip_is_recognised_by_its_bytes_up_to_twice(packed: bytes) -> None:
    assert locs(packed, Source("https://shop.test/s.xml", 200, "text/plain")) == BOTH
    assert locs(PLAIN, Source("https://shop.test/s.xml.gz", 200, "application/gzip")) == BOTH


def test_gzip_three_times_is_damaged() -> None:
    with pytest.raises(SitemapDamaged, match="more than twice"):
        read(gzip.compress(gzip.compress(gzip.compress(PLAIN.encode()))))


@pytest.mark.parametrize("layers", [1, 2])
def test_a_gzip_bomb_fails_at_the_limit(layers: int) -> None:
    bomb = b"<urlset>" + b" " * 30_000_000
    for _ in range(layers):
        bomb = gzip.compress(bomb)
    with pytest.raises(SitemapTooLarge):
        read(bomb, limits=ReadLimits(unpacked_bytes=1_000_000))


@pytest.mark.parametrize(
    "document",
    [
        urlset(*BOTH, attributes=""),
        urlset(*BOTH, attributes='xmlns="https://www.sitemaps.org/schemas/sitemap/0.9"'),
        urlset(*BOTH, attributes='xmlns="http://www.google.com/schemas/sitemap/0.84"'),
        urlset(*BOTH, attributes='xmlns="http://www.google.com/schemas/sitemap/0.9"'),
        PLAIN.replace("urlset", "URLSET").replace("url>", "Url>").replace("loc>", "LOC>"),
        '<s:urlset xmlns:s="x"><s:url><s:loc>https://shop.test/a</s:loc></s:url>'
        "<s:url><s:loc>https://shop.test/b</s:loc></s:url></s:urlset>",
        "<s:urlset><s:url><s:loc>https://shop.test/a</s:loc></s:url>"
        "<s:url><s:loc>https://shop.test/b</s:loc></s:url></s:urlset>",
    ],
)
def test_namespaces_prefixes_and_case_do_not_matter(document: str) -> None:
    assert locs(document) == BOTH


@pytest.mark.parametrize("declared", ['xmlns:image="i" xmlns:video="v" xmlns:xhtml="h"', ""])
def test_urls_of_images_videos_and_alternates_are_not_pages(declared: str) -> None:
    document = (
        f"<urlset {NAMESPACE} {declared}><url><image:image><image:loc>https://cdn.test/i.png</image:loc></image:image>"
        "<loc>https://shop.test/a</loc><video:video><video:player_loc>https://cdn.test/v</video:player_loc></video:video>"
        '<xhtml:link rel="alternate" hreflang="de" href="https://shop.test/de"/></url></urlset>'
    )
    assert locs(document) == ["https://shop.test/a"]


def test_a_foreign_loc_beside_the_page_s_own_is_ignored() -> None:
    document = (
        f'<urlset {NAMESPACE} xmlns:image="i"><url><image:loc>https://cdn.test/i.png</image:loc>'
        "<loc>https://shop.test/a</loc></url></urlset>"
    )
    assert locs(document) == ["https://shop.test/a"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("https://shop.test/a?x=1&amp;b=2", "https://shop.test/a?x=1&b=2"),
        ("https://shop.test/a?x=1&b=2&copy=3", "https://shop.test/a?x=1&b=2&copy=3"),
        ("https://shop.test/a?x=1&", "https://shop.test/a?x=1&"),
        ("<![CDATA[https://shop.test/a?x=1&y=2&amp;z]]>", "https://shop.test/a?x=1&y=2&amp;z"),
        ("https://shop.test/<![CDATA[a&b]]>&amp;c", "https://shop.test/a&b&c"),
        ("https://shop.test/caf&eacute;", "https://shop.test/café"),
        ("https://shop.test/a?x=1&unknown;2", "https://shop.test/a?x=1&unknown;2"),
        ("https://shop.test/&#97;&#x62;", "https://shop.test/ab"),
        ("https://shop.test/<!-- & <loc> -->a", "https://shop.test/a"),
        ("https://shop.test/a\x0b\x01b", "https://shop.test/ab"),
        ("https://shop.test/a&#11;b", "https://shop.test/ab"),
        ("https://shop.test/a&lt;b", "https://shop.test/a<b"),
    ],
)
def test_the_whole_url_is_read_whatever_stands_in_it(written: str, meant: str) -> None:
    assert locs(urlset(written, "https://shop.test/z")) == [meant, "https://shop.test/z"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/rel", "https://shop.test/rel"),
        ("rel", "https://shop.test/maps/rel"),
        ("//www.shop.test/x", "https://www.shop.test/x"),
        ("?a=1", "https://shop.test/maps/sitemap.xml?a=1"),
    ],
)
def test_relative_urls_are_resolved_against_the_document_and_named(written: str, meant: str) -> None:
    reader = read(urlset(written))
    assert reader.listed[0].loc == meant  # type: ignore[attr-defined]
    assert reader.findings.samples["URL that is not absolute"] == [written]


def test_entries_without_end_tags_are_still_separate() -> None:
    document = "<urlset><url><loc>https://shop.test/a</loc><url><loc>https://shop.test/b</loc></url></urlset>"
    assert locs(document) == BOTH
    document = "<urlset><url><loc>https://shop.test/a<lastmod>2024-01-01</lastmod></url></urlset>"
    assert locs(document) == ["https://shop.test/a"]


def test_an_entry_without_a_url_is_counted_and_skipped() -> None:
    reader = read(f"<urlset {NAMESPACE}><url><loc/></url><url></url><url><loc>https://shop.test/a</loc></url></urlset>")
    assert reader.entries_read == 1
    assert reader.findings.counts["entry without a URL"] == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "windows-1252", "utf-8"])
def test_the_document_s_own_encoding_is_found(encoding: str) -> None:
    document = f'<?xml version="1.0" encoding="{encoding}"?>' + urlset("https://shop.test/é")
    assert locs(document.encode(encoding)) == ["https://shop.test/é"]


def test_the_transport_s_charset_counts_when_the_document_says_nothing() -> None:
    source = Source("https://shop.test/s.xml", 200, 'text/xml; charset="iso-8859-1"')
    assert locs(urlset("https://shop.test/é").encode("latin-1"), source) == ["https://shop.test/é"]


def test_a_url_in_an_unreadable_encoding_makes_no_page() -> None:
    reader = read(urlset("https://shop.test/é", "https://shop.test/a").encode("latin-1"))
    assert [entry.loc for entry in reader.listed] == ["https://shop.test/a"]  # type: ignore[attr-defined]
    assert reader.findings.counts["URL in an unreadable encoding"] == 1


def test_no_entity_is_ever_declared_or_expanded() -> None:
    document = (
        '<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">'
        '<!ENTITY f SYSTEM "file:///etc/passwd">]>' + urlset("https://shop.test/&b;&f;")
    )
    assert locs(document) == ["https://shop.test/&b;&f;"]


@pytest.mark.parametrize("missing", range(1, 80))
def test_a_document_that_was_cut_off_anywhere_fails_and_no_url_is_cut(missing: int) -> None:
    urls = [f"https://shop.test/{number:04}" for number in range(100)]
    listed: list[Entry] = []
    with pytest.raises(SitemapDamaged, match="ends before </urlset>"):
        listed.extend(SitemapReader(SOURCE).read([urlset(*urls)[:-missing].encode()]))
    assert [entry.loc for entry in listed] == urls[: len(listed)]
    assert len(listed) >= 97


def test_a_packed_document_that_was_cut_off_fails() -> None:
    with pytest.raises(SitemapDamaged, match="ends too early"):
        read(gzip.compress(PLAIN.encode())[:-4])


def test_locs_that_the_parser_lost_make_the_document_fail() -> None:
    broken = (
        "<urlset><url foo=bar><loc>https://shop.test/a</loc></url><url><loc>https://shop.test/b</loc></url></urlset>"
    )
    with pytest.raises(SitemapDamaged, match="1 of 2 <loc> could be read"):
        read(broken)


@pytest.mark.parametrize("after", ["<!-- made by a plug-in -->", "\n\n", "<!-- <loc> & -->\n"])
def test_what_follows_the_root_does_not_matter(after: str) -> None:
    assert locs(PLAIN + after) == BOTH


@pytest.mark.parametrize(
    "page",
    [
        "<!DOCTYPE html><html><title>Not found</title>",
        "<HTML><body>",
        '<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x"><html/>',
    ],
)
def test_an_html_page_is_named_with_status_type_and_how_it_begins(page: str) -> None:
    with pytest.raises(NotASitemap, match=r"It answered 200 \(text/html\) with an HTML page: <") as caught:
        read(page, Source("https://shop.test/s.xml", 200, "text/html; charset=utf-8"))
    assert page.split()[0] in str(caught.value)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("", "with nothing"),
        ("  \n", "with nothing"),
        ('{"error": "no"}', "neither XML nor a list"),
        ('<rss version="2.0"><channel/></rss>', "a feed"),
        ("<html xmlns='x'><body/></html>", "an HTML page"),
        ("<error>no</error>", "with <error>"),
        ("<?xml version='1.0'?>", "no element"),
        ("<", "no element"),
        ("h", "neither XML nor"),
    ],
)
def test_something_else_than_a_sitemap_says_what_it_is(document: str, says: str) -> None:
    with pytest.raises(NotASitemap, match=says):
        read(document)


def test_a_list_of_urls_is_a_sitemap() -> None:
    assert locs("\ufeffhttps://shop.test/a\r\n\r\n# comment\n  https://shop.test/b  ") == BOTH


def test_bad_dates_priorities_and_frequencies_are_absent_and_named() -> None:
    reader = read(
        f"<urlset {NAMESPACE}><url><loc>https://shop.test/a</loc><lastmod>soon</lastmod>"
        "<changefreq>sometimes</changefreq><priority>high</priority></url></urlset>"
    )
    assert reader.listed == [Entry("https://shop.test/a")]  # type: ignore[attr-defined]
    assert reader.findings.counts.keys() == {"unreadable lastmod", "unreadable changefreq", "unreadable priority"}


def many(count: int) -> Iterator[bytes]:
    yield f"<urlset {NAMESPACE} >".encode()
    for number in range(count):
        yield f"<url><loc>https://shop.test/products/{number:08}</loc><image:image/></url>".encode()
    yield b"</urlset>"


def test_more_than_the_protocol_s_50000_urls_is_a_warning_and_takes_no_memory() -> None:
    reader = SitemapReader(SOURCE)
    tracemalloc.start()
    try:
        count = sum(1 for _ in reader.read(many(50_001)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 50_001
    assert "more than 50,000 URLs in one document" in reader.findings.counts
    assert peak < 2_000_000


def test_more_than_the_hard_limit_fails() -> None:
    reader = SitemapReader(SOURCE, ReadLimits(entries=100))
    with pytest.raises(SitemapTooLarge, match="more than 100 URLs"):
        list(reader.read(many(101)))
    assert reader.entries_read == 101


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd\ufffe\uffff"), max_size=40)


@given(
    st.lists(st.one_of(TEXT, st.sampled_from(["<!--", "]]>", "<![CDATA[", "&", "&amp;", "<loc>", "</urlset>", "<"])))
)
def test_any_text_gives_entries_or_a_sitemap_error(parts: list[str]) -> None:
    document = "<urlset><url><loc>https://shop.test/" + "".join(parts) + "</loc></url></urlset>"
    try:
        for entry in read(document).listed:  # type: ignore[attr-defined]
            assert entry.loc
    except (NotASitemap, SitemapDamaged):
        pass


@given(st.lists(TEXT.filter(lambda text: text.strip()), min_size=1, max_size=8), st.integers(1, 50))
def test_chunk_borders_and_escaping_do_not_change_what_is_read(paths: list[str], size: int) -> None:
    from xml.sax.saxutils import escape

    urls = [f"https://shop.test/{path}" for path in paths]
    data = urlset(*(escape(url) for url in urls)).encode()
    reader = SitemapReader(SOURCE)
    entries = list(reader.read(data[start : start + size] for start in range(0, len(data), size)))
    whole = list(SitemapReader(SOURCE).read([data]))
    assert entries == whole
    assert len(entries) == len(urls)
