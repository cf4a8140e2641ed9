"""The words that benchmarks/run.py takes, and the names of the benchmarks.

It needs the standard library alone, so `nox -s benchmarks` reads them before it installs.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
ELSEWHERE: Final = ("injection", "peers")
"""Those whose contestants are in environments of their own; importing them needs more than ours."""
QUICK: Final = ("kernel", "host", "end_to_end")
"""The benchmarks of the quick mode: all of it takes at most three minutes."""


def names() -> tuple[str, ...]:
    """Every benchmark: the modules with a function ``measure``, and those `ELSEWHERE`."""
    own = (path.stem for path in sorted(FOLDER.glob("*.py")) if _measures(path))
    return (*(name for name in own if name not in ELSEWHERE), *ELSEWHERE)


def _measures(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(each, ast.FunctionDef) and each.name == "measure" for each in tree.body)


def parser() -> argparse.ArgumentParser:
    """The parser of everything but `compare`."""
    made = argparse.ArgumentParser(
        prog="benchmarks/run.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Measure the quick ones, or all with --full, or each NAME.\n"
            "`compare A B` compares two folders or files of results."
        ),
        epilog=(
            f"the benchmarks:\n{_listed()}\n\n"
            f"the quick ones: {', '.join(QUICK)}\n"
            "`nox -R -s benchmarks -- NAME` uses the installed environment again."
        ),
    )
    made.add_argument(
        "names", nargs="*", metavar="NAME", type=_name, help="a benchmark to run; see below"
    )
    made.add_argument("--full", action="store_true", help="run all, as long as they take")
    made.add_argument("--into", metavar="DIR", help="write the results there")
    made.add_argument(
        "--times", type=int, choices=range(1, 10), metavar="N",
        help="measure each benchmark so often, and keep the readings (1 to 9)",
    )  # fmt: skip
    return made


def _name(text: str) -> str:
    if text not in names():
        said = f"no benchmark is called {text}; there are {', '.join(names())}"
        raise argparse.ArgumentTypeError(said)
    return text


def _listed() -> str:
    """The names in lines of six."""
    every = names()
    lines = (every[start : start + 6] for start in range(0, len(every), 6))
    return ",\n".join(f"  {', '.join(line)}" for line in lines)


if __name__ == "__main__":
    parser().parse_args()
