"""Runs the benchmarks and writes what they found: `python benchmarks/run.py [NAME...]`.

Every other module of this folder is a benchmark if it has a function

    def measure() -> list[Figure]

which measures ours and the limit in turns within one run (`figure.interleaved`, or likewise) and
returns a `Figure` for each thing measured. Its first docstring line is the heading of its table.
`peers` and `injection` are as well, with tables of their own; they need a package index and run
when they are named. `guard` and `postgres` ask for one too, and say in their tables whom they could
not install.
Nothing here is a test and nothing fails because it was slow; the table says which bars held.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from beside import table as table_of_figures

sys.path.append(str(Path(__file__).parents[1]))

from integration.guard import guard

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
ON_REQUEST = ("injection", "peers")


class Finding(Protocol):
    """What a benchmark hands back: a `Figure`, or what its own table shows."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""


def main(names: list[str]) -> None:
    """Measure the named benchmarks, or our own, and write one JSON file each and a table of all."""
    guard()
    RESULTS.mkdir(exist_ok=True)
    modules = [path.stem for path in sorted(FOLDER.glob("*.py")) if path.stem != "run"]
    own = [
        name for name in modules
        if name not in ON_REQUEST and hasattr(importlib.import_module(name), "measure")
    ]  # fmt: skip
    found = {name: _measure(name) for name in (*own, *ON_REQUEST)}
    unknown = set(names) - set(found)
    if unknown:
        sys.exit(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(found)}"
        )
    for name in names or own:
        load = os.getloadavg()[0]
        figures = found[name]()
        result: dict[str, Any] = {
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load": [round(load, 2), round(os.getloadavg()[0], 2)],
            "figures": [each.record() for each in figures],
        }
        (RESULTS / f"{name}.json").write_text(
            json.dumps(result, indent=2, ensure_ascii=False) + "\n"
        )
        print(table(name, result))
    sections = (
        table(path.stem, json.loads(path.read_text())) for path in sorted(RESULTS.glob("*.json"))
    )
    (RESULTS / "README.md").write_text("# Figures\n\n" + "\n".join(sections))


def _measure(name: str) -> Callable[[], Sequence[Finding]]:
    measure: Callable[[], Sequence[Finding]] = importlib.import_module(name).measure
    return measure


def table(name: str, result: dict[str, Any]) -> str:
    """One benchmark's figures as a Markdown table."""
    module = importlib.import_module(name)
    heading = (module.__doc__ or name).splitlines()[0].rstrip(".")
    before, after = result["load"]
    under = (
        f"Python {result['python']} on {result['machine']}; load {before} before, {after} after."
    )
    rows: Callable[[Sequence[dict[str, Any]]], str] = getattr(module, "table", table_of_figures)
    return f"## {heading}\n\n{under}\n\n{rows(result['figures'])}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
