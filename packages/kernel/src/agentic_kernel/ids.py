"""Task ids: version 7 UUIDs, made from the clock and from random bytes."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock  # importing threading would double the import time of this module

_lock = allocate_lock()
_last = 0


def new_id() -> str:
    """Return a new Task id: a version 7 UUID (RFC 9562), greater than this process's last.

    The first 48 bits are Unix milliseconds, so ids sort by time of issue.
    Within one millisecond, or if the clock steps back, the value grows by a random amount
    (RFC 9562, section 6.2, method 2), so that a process and its fork do not issue the same id.
    """
    global _last
    noise = int.from_bytes(os.urandom(10), "big")
    with _lock:
        value = (time.time_ns() // 1_000_000) << 74 | noise & _RANDOM
        if value <= _last:
            value = _last + 1 + (noise & 0xFFFF_FFFF)
        _last = value
    text = f"{value >> 62:015x}{0x8000 << 48 | value & _VARIED:016x}"
    return f"{text[:8]}-{text[8:12]}-7{text[12:15]}-{text[15:19]}-{text[19:]}"


def _after_fork() -> None:
    """Make a new lock in a forked child: a thread of the parent may have held the old one."""
    global _lock
    _lock = allocate_lock()


_RANDOM = (1 << 74) - 1
_VARIED = (1 << 62) - 1
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
