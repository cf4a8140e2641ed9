"""Sockets: how many connections a server has, as the system counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ESTABLISHED: Final = "01"
"""The state in ``/proc/net/tcp``; see the kernel's ``include/net/tcp_states.h``."""


def established(port: int) -> int:
    """Connections to this port that neither side has closed, from the server's point of view.

    Linux only: read from ``/proc/net/tcp`` and ``/proc/net/tcp6``.
    """
    found = 0
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == ESTABLISHED and int(fields[1].rpartition(":")[2], 16) == port:
                found += 1
    return found
