"""One figure of one contestant: `python -m peers MODULE KEEPING FIGURE NUMBER`.

This runs in the contestant's own environment, where there is the standard library and the
contestant, and prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys

from peers.contest import Opened, together, turn, waiting

FIGURES = {"turn": turn, "together": together, "waiting": waiting}


def main(module: str, keeping: str, figure: str, number: str) -> None:
    """Measure it."""
    opened: Opened = importlib.import_module(f"peers.{module}").opened
    print(json.dumps(asyncio.run(FIGURES[figure](opened, keeping == "True", int(number)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
