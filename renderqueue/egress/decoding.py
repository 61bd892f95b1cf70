"""Content-Encoding, in pieces of bounded size: a small body that unpacks to gigabytes never is in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PIECE_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_ANY_GZIP = 16 + zlib.MAX_WBITS


class EncodingError(Exception):
    """The body is not what its Content-Encoding says, or ends too early."""


class Identity:
    """Nothing to decode."""

    def decode(self, raw: bytes) -> Iterator[bytes]:
        yield raw

    def finish(self) -> bytes:
        """What was held back, at the end of the body. Raises EncodingError if the body is not complete."""
        return b""


class Gzip(Identity):
    """Any number of gzip members. A body that does not begin as gzip is passed on as it is: servers label
    plain files so (F74), and a body that was gzip to begin with is found out by whoever reads it."""

    def __init__(self) -> None:
        self._start = b""
        self._plain = False
        self._member: zlib._Decompress | None = None

    def decode(self, raw: bytes) -> Iterator[bytes]:
        if self._plain:
            yield raw
            return
        if self._member is None:
            raw = self._start + raw
            if len(raw) < len(_GZIP_MAGIC):
                self._start = raw
                return
            if not raw.startswith(_GZIP_MAGIC):
                self._plain = True
                yield raw
                return
            self._member = zlib.decompressobj(_ANY_GZIP)
        yield from self._unpack(raw)

    def _unpack(self, raw: bytes) -> Iterator[bytes]:
        assert self._member is not None
        while raw:
            if self._member.eof:
                if not raw.startswith(_GZIP_MAGIC[: len(raw)]):
                    return  # padding after the last member is ignored, as every gunzip does
                self._member = zlib.decompressobj(_ANY_GZIP)
            yield from self._pieces(self._member, raw)
            raw = self._member.unused_data

    @staticmethod
    def _pieces(member: zlib._Decompress, raw: bytes) -> Iterator[bytes]:
        piece = b""
        # A full piece may leave output behind inside zlib although all input is used.
        while raw or len(piece) == PIECE_BYTES:
            try:
                piece = member.decompress(raw, PIECE_BYTES)
            except zlib.error as error:
                raise EncodingError(f"the gzip data is damaged ({error})") from None
            raw = member.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> bytes:
        if self._member is not None and not self._member.eof:
            raise EncodingError("the gzip data ends too early")
        return self._start if self._member is None and not self._plain else b""


def decoder_for(content_encoding: str) -> Identity:
    """The decoder for a Content-Encoding; we ask for gzip only. Raises EncodingError for others."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    encodings = [name for name in names if name not in ("", "identity")]
    if not encodings:
        return Identity()
    if encodings in (["gzip"], ["x-gzip"]):
        return Gzip()
    raise EncodingError(f"the body is encoded as {content_encoding[:60]!r}, although only gzip was asked for")
