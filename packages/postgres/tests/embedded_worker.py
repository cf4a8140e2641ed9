"""A worker that uses the server of a folder: ``python -m … FOLDER``.

It prints where the server is and the server's process id, and waits until its input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentic_kernel_postgres import embedded
from agentic_kernel_postgres.guard import server_of


def main(folder: str) -> None:
    """Use the server until nobody writes to the standard input any more."""
    print(embedded(folder), flush=True)
    print(server_of(Path(folder).resolve()), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
