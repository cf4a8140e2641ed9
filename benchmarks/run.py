"""Runs the benchmarks, writes what they found, and compares what two runs found.

    python benchmarks/run.py                    the quick ones, into benchmarks/quick/
    python benchmarks/run.py --full             all, into benchmarks/results/
    python benchmarks/run.py NAME...            these, into benchmarks/results/
    python benchmarks/run.py compare A B        two folders or files of results, by name

Every other module of this folder is a benchmark if it has a function

    def measure() -> list[Figure]

which measures ours and the limit in turns within one run (`figure.interleaved`, or likewise) and
returns a `Figure` for each thing measured. Its first docstring line is the heading of its table.
`words.QUICK` names those of the quick mode; a module with a function `quick` measures less there.
`peers` and `injection` are as well, with tables of their own; they need a package index. `guard`
and `postgres` ask for one too, and say in their tables whom they could not install.
Nothing here is a test and nothing fails because it was slow; the table says which bars held.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

try:
    from beside import table as table_of_figures
    from repeated import repeated
    from words import FOLDER, QUICK, names, parser

    from agentic_kernel_conformance.__main__ import main as kit
except ModuleNotFoundError as missing:
    said = " ".join(["nox -s benchmarks", *(["--", *sys.argv[1:]] if sys.argv[1:] else [])])
    sys.stderr.write(f"{missing.name} is not installed in this Python; run it as `{said}`\n")
    sys.exit(2)

sys.path.append(str(Path(__file__).parents[1]))

from integration.guard import guard

RESULTS = FOLDER / "results"
QUICKLY = FOLDER / "quick"
TIMES = 3
"""How often the quick mode measures a benchmark that has no `quick` of its own."""


class Finding(Protocol):
    """What a benchmark hands back: a `Figure`, or what its own table shows."""

    def record(self) -> dict[str, Any]:
        """All of it as JSON."""


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    if arguments[:1] == ["compare"]:
        return kit(arguments)
    given = parser().parse_args(arguments)
    quick = not (given.names or given.full)
    into = Path(given.into) if given.into else QUICKLY if quick else RESULTS
    guard()
    into.mkdir(exist_ok=True, parents=True)
    for name in given.names or (QUICK if quick else names()):
        load, began = os.getloadavg()[0], time.perf_counter()
        figures = _measure(name, quick=quick, times=given.times)
        result: dict[str, Any] = {
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "load": [round(load, 2), round(os.getloadavg()[0], 2)],
            "quick": quick,
            "figures": figures,
        }
        text = json.dumps(result, indent=2, ensure_ascii=False)
        (into / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        print(table(name, result))
        print(f"{name}: {time.perf_counter() - began:.0f} s\n", file=sys.stderr)
    sections = (
        table(path.stem, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(into.glob("*.json"))
    )
    (into / "README.md").write_text("# Figures\n\n" + "\n".join(sections), encoding="utf-8")
    return 0


def _measure(name: str, *, quick: bool, times: int | None) -> list[dict[str, Any]]:
    """The records of one benchmark."""
    module = importlib.import_module(name)
    measure: Callable[[], Sequence[Finding]] = module.measure
    if quick and hasattr(module, "quick"):
        measure, usual = module.quick, 1  # It repeats within.
    else:
        usual = TIMES if quick else 1
    return repeated([[each.record() for each in measure()] for _ in range(times or usual)])


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
    sys.exit(main(sys.argv[1:]))
