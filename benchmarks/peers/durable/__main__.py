"""One figure of one contestant: `python -m peers.durable MODULE WAY FIGURE PLACE STEPS`.

This runs in the contestant's own environment, where there is the standard library and the
contestant, and prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys

from peers.durable.contest import Opened, left, together

FIGURES = {"together": together, "left": left}


def main(module: str, way: str, figure: str, place: str, steps: str) -> None:
    """Measure it."""
    opened: Opened = importlib.import_module(f"peers.durable.{module}").opened
    print(json.dumps(asyncio.run(FIGURES[figure](opened, way, place, int(steps)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
