"""The tests that a change concerns, by the imports of the repository's files.

python -m integration.concerned [BASE]    print the test files, one a line; BASE is a commit

A change is what differs from the commit at which the branch left BASE (`main` if not given), with
files that are not committed. It concerns a test file if the file imports a changed one, directly or
through others, also inside a function, or lies in the `tests` of a package whose source changed
(such a test may start the package as a program). If a changed file is imported nowhere and is not a
page, e.g. a `pyproject.toml`, then no import says which tests it concerns, so all are printed.
"""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from .programs import parser

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("integration/test_documentation.py", "integration/test_new.py")
"""The tests that run what pages show."""


class Imports:
    """The imports among the Python files below a folder.

    Args:
        root: The folder; its packages lie in ``packages/*/src``, ``conformance/src`` and itself.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._roots = [*sorted(root.glob("packages/*/src")), root / "conformance/src", root]
        self._found: dict[tuple[Path | str | None, ...], list[Path]] = {}
        self._packages: dict[Path, dict[str, tuple[list[str], Path]]] = {}

    @cached_property
    def files(self) -> dict[Path, None]:
        """All Python files that git knows, or would add, in order."""
        listed = _git(self.root, "ls-files", "--cached", "--others", "--exclude-standard", "*.py")
        found = (self.root / line for line in sorted(listed))
        return {path: None for path in found if path.is_file()}

    @cached_property
    def importers(self) -> dict[Path, set[Path]]:
        """The files that import each file."""
        found: defaultdict[Path, set[Path]] = defaultdict(set)
        for path in self.files:
            for imported in self._imported(path):
                found[imported].add(path)
        return found

    def concerned(self, changed: Iterable[Path]) -> set[Path]:
        """The changed files, and all that import one of them, directly or through others."""
        found, waiting = set[Path](), list(changed)
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting += self.importers.get(path, ())
        return found

    def tests(self) -> list[Path]:
        """All test files."""
        return [path for path in self.files if path.name.startswith("test_")]

    def _imported(self, path: Path) -> Iterator[Path]:
        for each in ast.walk(self._parsed(path)):
            if isinstance(each, ast.Import):
                for name in each.names:
                    yield from self._module(name.name.split("."))
            elif isinstance(each, ast.ImportFrom):
                base = path.parents[each.level - 1] if each.level else None
                parts = each.module.split(".") if each.module else []
                for name in each.names:
                    yield from self._module([*parts, name.name], base)
            elif (
                isinstance(each, ast.Constant)
                and isinstance(each.value, str)
                and each.value.startswith(("integration.", "agentic_kernel"))
            ):  # A plugin of pytest, or a program that is started by its name.
                yield from self._module(each.value.split("."))
        for folder in path.parents:
            if (conftest := folder / "conftest.py") in self.files and conftest != path:
                yield conftest
            if folder == self.root:
                break

    def _module(self, parts: list[str], base: Path | None = None) -> Iterator[Path]:
        """The files of a dotted name, whose last part may be a name in the module."""
        key = (base, *parts)
        if key not in self._found:
            self._found[key] = list(self._looked_up(parts, base))
        yield from self._found[key]

    def _looked_up(self, parts: list[str], base: Path | None) -> Iterator[Path]:
        for root in [base] if base else self._roots:
            for end in range(len(parts), -1 if base else 0, -1):
                stem = root.joinpath(*parts[:end])
                if (module := stem.with_name(f"{stem.name}.py")) in self.files:
                    yield module
                    return
                if (init := stem / "__init__.py") in self.files:
                    yield from self._from_package(init, parts[end:])
                    return

    def _from_package(self, init: Path, rest: list[str]) -> Iterator[Path]:
        """The module from which a package takes a name; the package itself if it takes it nowhere.

        So a package that gives the names of many modules makes no importer depend on all of them.
        """
        if rest and (found := self._given(init).get(rest[0])):
            yield from self._module(*found)
            return
        yield init

    def _given(self, init: Path) -> dict[str, tuple[list[str], Path]]:
        """The names that a package takes from its modules: each one's dotted name, and the base."""
        if init not in self._packages:
            given = self._packages[init] = {}
            for each in ast.walk(self._parsed(init)):
                if isinstance(each, ast.ImportFrom) and each.level:
                    parts = each.module.split(".") if each.module else []
                    base = init.parents[each.level - 1]
                    for name in each.names:
                        given[name.asname or name.name] = ([*parts, name.name], base)
        return self._packages[init]

    def _parsed(self, path: Path) -> ast.Module:
        return ast.parse(path.read_text(encoding="utf-8"))


def concerned(root: Path, changed: list[Path]) -> list[Path]:
    """The test files that these changed files concern, in order."""
    imports = Imports(root)
    touched = imports.concerned(path for path in changed if path in imports.files)
    tests = imports.tests()
    pages = {root / name for name in PAGES}
    chosen = {path for path in tests if path in touched}
    for path in changed:
        parts = path.relative_to(root).parts
        if parts[0] in ("packages", "conformance") and "src" in parts:
            folder = root.joinpath(*parts[: parts.index("src")], "tests")
            chosen |= {test for test in tests if test.is_relative_to(folder)}
        elif parts[0] == "docs" or path.suffix == ".md":
            chosen |= pages
        elif path not in imports.files or (path not in tests and path not in imports.importers):
            return tests
    return sorted(chosen)


def changed(root: Path, base: str) -> list[Path]:
    """What differs from the commit at which this branch left ``base``, and is not ignored.

    Raises:
        SystemExit: There is no such commit.
    """
    try:
        [left] = _git(root, "merge-base", base, "HEAD")
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{base!r} is no commit of this repository; name another") from error
    lines = [
        *_git(root, "diff", "--name-only", left),
        *_git(root, "ls-files", "--others", "--exclude-standard"),
    ]
    return [root / line for line in dict.fromkeys(lines)]


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.splitlines()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the test files that the change concerns."""
    words = parser("integration.concerned", __doc__)
    words.add_argument("base", nargs="?", default="main", metavar="BASE", help="a commit (main)")
    for path in concerned(ROOT, changed(ROOT, words.parse_args(arguments).base)):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
