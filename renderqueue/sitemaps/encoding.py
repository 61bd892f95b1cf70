"""Bytes of a sitemap to text: unpacked by magic bytes, in the encoding that it really has, no control characters."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

from renderqueue.egress.decoding import EncodingError, Gzip
from renderqueue.sitemaps.errors import SitemapDamaged, SitemapTooLarge
from renderqueue.sitemaps.findings import Findings

HEAD_BYTES = 1024
_GZIP_MAGIC = b"\x1f\x8b"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:\-]{1,40})["']""")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_UTF16_STARTS = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
# Encodings in which the declaration could be read as ASCII. Python also calls punycode and its like encodings.
_ASCII_BASED = re.compile(r"iso8859-\d+|cp\d+|koi8-[a-z]|shift_jis\w*|euc_\w+|gb\w+|big5\w*|mac-\w+|tis-620")


def unpacked(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Undo gzip, twice at most, when the bytes say that it is gzip; labels and names do not count (F74).

    Raises SitemapTooLarge beyond `max_bytes` and SitemapDamaged when packed data is damaged or incomplete."""
    return _gunzip(_gunzip(chunks, max_bytes), max_bytes)


def decoded(chunks: Iterable[bytes], charset: str | None, findings: Findings) -> Iterator[str]:
    """Text without characters that XML does not know. `charset` is the transport's, and counts when the
    document itself says nothing. Bytes that cannot be read become U+FFFD."""
    head, rest = _head(chunks)
    if head.startswith(_GZIP_MAGIC):
        raise SitemapDamaged("It is packed with gzip more than twice.")
    encoding, skipped = _encoding(head, charset, findings)
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for chunk, final in _with_end([head[skipped:]], rest):
        text = decoder.decode(chunk, final)
        clean = _NOT_XML.sub("", text)
        if len(clean) < len(text):
            findings.add("control characters", count=len(text) - len(clean))
        if clean:
            yield clean


def _gunzip(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    gzip = Gzip()
    size = 0
    try:
        for chunk in chunks:
            for piece in gzip.decode(chunk):
                size += len(piece)
                if size > max_bytes:
                    raise SitemapTooLarge(f"It is larger than {max_bytes:,} bytes unpacked.")
                yield piece
        yield gzip.finish()
    except EncodingError as error:
        raise SitemapDamaged(f"It cannot be unpacked: {error}.") from None


def _head(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    rest = iter(chunks)
    head = b""
    for chunk in rest:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    return head, rest


def _with_end(first: list[bytes], rest: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in first:
        yield chunk, False
    for chunk in rest:
        yield chunk, False
    yield b"", True


def _encoding(head: bytes, charset: str | None, findings: Findings) -> tuple[str, int]:
    """The codec, and how many bytes of byte order mark to skip."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    for start, name in _UTF16_STARTS:
        if head.startswith(start):
            return name, 0
    declared = _DECLARED.search(head.lstrip()[:300])
    name = declared.group(1).decode("ascii") if declared else charset or "utf-8"
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        findings.add("unknown encoding", name)
        return "utf-8", 0
    return (codec if _ASCII_BASED.fullmatch(codec) else "utf-8"), 0
