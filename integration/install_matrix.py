"""The install matrix: each sibling alone, and some together, with old and new versions of the rest.

    python -m integration.install_matrix WHEELS INTERPRETER... [--page FILE]

Each combination is installed from the folder of wheels into an environment of its own, on each
interpreter, once with the oldest versions that our packages ask for directly, and once with the
newest. It holds if every module of ours imports, or misses a package of an extra and says so, and
if no package conflicts with another. Sizes and import times are those of the newest versions on the
first interpreter.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ALONE: Final = "alone"
TOGETHER: Final = {
    "a runtime on files": ("openai", "file"),
    "three runtimes on Postgres": ("openai", "claude", "gemini", "postgres"),
    "a traced runtime on files": ("ollama", "file", "otel"),
    "tools of MCP servers behind the guard": ("claude", "guard", "mcp"),
    "the command with the local model": ("cli[local]",),
    "the command with the server on Postgres": ("cli[server]", "postgres"),
    "a store under the kit": ("file", "conformance"),
    "the command with the templates of packages": ("cli[new]",),
}
"""Useful combinations, by what one does with them."""
EVERYTHING: Final = "everything"
OLDEST, NEWEST = "lowest-direct", "highest"
ROUNDS: Final = 5
PATIENCE: Final = 600.0
"""Seconds after which a program is given up."""
EXAMINED: Final = Path(__file__).with_name("installed.py")
_TIMED: Final = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


@dataclass
class Row:
    """One combination."""

    said: str
    wanted: tuple[str, ...]
    """Members, such as ``file`` or ``cli[local]``."""
    distributions: int = 0
    size: float = 0.0
    """MiB of all files that were installed, without bytecode."""
    imported: float = 0.0
    """Milliseconds of the import of the first member's package, the best of some rounds."""
    held: dict[tuple[str, str], str] = field(default_factory=dict)
    """An empty text, or what failed, for each interpreter and choice of versions."""


class Matrix:
    """Installs combinations.

    Args:
        wheels: The folder of all our wheels.
        interpreters: Programs of Python, the first one for sizes and times.
    """

    def __init__(self, wheels: Path, interpreters: list[str]) -> None:
        self._wheels = {_member(path): path for path in sorted(wheels.glob("*.whl"))}
        self.interpreters = {_version(each): each for each in interpreters}
        self.rows = [
            *(Row(ALONE, (member,)) for member in self._wheels),
            *(Row(said, members) for said, members in TOGETHER.items()),
            Row(EVERYTHING, tuple(self._wheels)),
        ]

    def fill(self) -> None:
        """Install every row, and print a line for each installation."""
        first = next(iter(self.interpreters))
        for row in self.rows:
            for version, python in self.interpreters.items():
                for choice in (OLDEST, NEWEST):
                    with tempfile.TemporaryDirectory() as name:
                        failed = self._install(row, Path(name), python, choice)
                        if not failed and (version, choice) == (first, NEWEST):
                            self._measure(row, Path(name))
                    row.held[version, choice] = failed
                    said = " + ".join(row.wanted)
                    print(f"{said}, {version}, {choice}: {failed or 'ok'}", flush=True)

    def _install(self, row: Row, folder: Path, python: str, choice: str) -> str:
        """What failed; empty if nothing did."""
        _told(python, "-m", "venv", "--without-pip", str(folder))
        inside = str(folder / "bin" / "python")
        wanted = [self._requirement(each) for each in row.wanted]
        overrides = folder / "own.txt"
        # Without this, a name that is taken on the package index would win over our wheel.
        overrides.write_text("".join(f"{self._requirement(each)}\n" for each in self._wheels))
        try:
            _told("uv", "pip", "install", "--quiet", "--python", inside, "--resolution", choice,
                  "--constraint", str(overrides), *wanted)  # fmt: skip
            _told("uv", "pip", "check", "--quiet", "--python", inside)
            _told(inside, "-I", str(EXAMINED), "--together", *self._own(folder))
        except subprocess.CalledProcessError as fault:
            lines = (fault.stderr or fault.stdout).strip().splitlines()
            return lines[-1] if lines else f"exit status {fault.returncode}"
        return ""

    def _measure(self, row: Row, folder: Path) -> None:
        site = next(folder.glob("lib/python*/site-packages"))
        row.distributions = len(list(site.glob("*.dist-info")))
        files = (path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
        row.size = sum(path.stat().st_size for path in files) / 2**20
        package = _package(self._wheels[row.wanted[0].partition("[")[0]])
        python = str(folder / "bin" / "python")
        times = [float(_told(python, "-I", "-c", _TIMED.format(package))) for _ in range(ROUNDS)]
        row.imported = min(times) * 1e3

    def _requirement(self, wanted: str) -> str:
        member, bracket, extra = wanted.partition("[")
        wheel = self._wheels[member]
        return f"{_distribution(wheel)}{bracket}{extra} @ {wheel.resolve().as_uri()}"

    def _own(self, folder: Path) -> list[str]:
        """Our distributions that were installed."""
        site = next(folder.glob("lib/python*/site-packages"))
        names = {_distribution(wheel) for wheel in self._wheels.values()}
        found = (_distribution(path) for path in sorted(site.glob("agentic_kernel*.dist-info")))
        return [name for name in found if name in names]


def table(matrix: Matrix) -> str:
    """The page's table."""
    versions = list(matrix.interpreters)
    heads = ["what", "distributions", "MiB", "import, ms"]
    heads += [f"{version} {said}" for version in versions for said in ("oldest", "newest")]
    lines = [f"| {' | '.join(heads)} |", "|---|--:|--:|--:|" + "---|" * (2 * len(versions))]
    for row in matrix.rows:
        names = (
            "every sibling"
            if row.said == EVERYTHING
            else " + ".join(f"`{each}`" for each in row.wanted)
        )
        said = names if row.said in (ALONE, EVERYTHING) else f"{row.said}: {names}"
        cells = [said, f"{row.distributions}", f"{row.size:,.1f}", f"{row.imported:,.0f}"]
        cells += ["yes" if not each else f"**no**: {each}" for each in row.held.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(matrix: Matrix) -> str:
    """The whole page."""
    return PAGE.format(versions=", ".join(matrix.interpreters), table=table(matrix))


PAGE: Final = """# What an installation brings

Made by `nox -s install-matrix`, which installs each line into environments of its own: on Python
{versions}, with the oldest versions that our packages ask for directly, and with the newest ones.
A cell says *yes* if every module imports, or names the extra that it waits for, and if no package
conflicts with another. A member stands for its distribution: `file` for `agentic-kernel-file`,
`kernel` for `agentic-kernel-core`.

Distributions are all that are installed, ours among them. MiB are those of the installed files
without bytecode. The import is that of the first package of the line in a fresh process, the best
of five, with the newest versions on the first interpreter. It is `import PACKAGE` alone.
Some packages, such as `engine` and `conformance`, load their modules and those of their siblings at
the first use of a name, and the command loads the modules of `cli` when it starts. Their numbers do
not include that.

{table}
"""


def _member(wheel: Path) -> str:
    name = _distribution(wheel).removeprefix("agentic-kernel-")
    return "kernel" if name == "core" else name


def _distribution(path: Path) -> str:
    return path.name.partition("-")[0].replace("_", "-")


def _package(wheel: Path) -> str:
    return "agentic_kernel" if _member(wheel) == "kernel" else wheel.name.partition("-")[0]


def _version(python: str) -> str:
    return _told(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def _told(*command: str) -> str:
    """What a program says.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    return said.stdout


def main() -> int:
    """Fill the matrix; the exit status is 1 if a cell does not hold."""
    parser = argparse.ArgumentParser(description="Install each sibling, and some together.")
    parser.add_argument("wheels", type=Path, help="the folder of all wheels")
    parser.add_argument("interpreters", nargs="+", help="programs of Python")
    parser.add_argument("--page", type=Path, help="the page to write")
    given = parser.parse_args()
    matrix = Matrix(given.wheels, given.interpreters)
    matrix.fill()
    if given.page is not None:
        given.page.write_text(page(matrix), encoding="utf-8")
    return 0 if all(not each for row in matrix.rows for each in row.held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
