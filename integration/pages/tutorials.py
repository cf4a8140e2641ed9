"""Puts the code of the templates into the tutorials, so that there is one source.

python -m integration.pages.tutorials            rewrite what is between the marks
python -m integration.pages.tutorials --check    fail if it is not what this makes

A mark names a file of a new package, and the text at which its part begins and the one before
which it ends; without the second text it goes on to the end of the file:

    <!-- code: src/acme_tables/store.py | async def join | def _renew -->

All parts of a page together are whole files: no line is left out, and none stands there twice.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agentic_kernel_new import Sibling, create

from .sections import DOCS, only_checks, settle

SCRIPT: Final = "tutorials.py"
PAGES: Final = {
    DOCS / "tutorials" / "substrate.md": Sibling.of("runtime", "acme-shell"),
    DOCS / "tutorials" / "store.md": Sibling.of("store", "acme-tables"),
}
"""The tutorials, each with the package that its reader makes."""
_PART: Final = re.compile(
    r"(<!-- code: (\S+)(?: \| ([^|\n]*?))?(?: \| ([^|\n]*?))? -->\n)"
    r"(.*?)(<!-- end of code -->)",
    re.DOTALL,
)


def renewed(text: str, files: Mapping[str, str]) -> str:
    """A page with every part brought up to date.

    Raises:
        SystemExit: A mark names no part of a file, or a line is missing or stands there twice.
    """
    taken: dict[str, list[int]] = {}

    def part(found: re.Match[str]) -> str:
        name, first, last = found[2], found[3] or "", found[4]
        lines = files[name].splitlines()
        start = _at(lines, first, 0, name)
        end = len(lines) if last is None else _at(lines, last, start + 1, name)
        taken.setdefault(name, []).extend(n for n in range(start, end) if lines[n].strip())
        code = textwrap.dedent("\n".join(lines[start:end])).strip("\n")
        return f'{found[1]}\n```python title="{name}"\n{code}\n```\n\n{found[6]}'

    made = _PART.sub(part, text)
    for name, places in taken.items():
        whole = [n for n, line in enumerate(files[name].splitlines()) if line.strip()]
        if sorted(places) != whole:
            odd = sorted(set(whole) ^ set(places)) or [n for n in places if places.count(n) > 1]
            line = files[name].splitlines()[odd[0]]
            sys.exit(f"{name}: line {odd[0] + 1} is missing on the page, or there twice: {line!r}")
    return made


def _at(lines: list[str], text: str, start: int, name: str) -> int:
    for number in range(start, len(lines)):
        if text in lines[number]:
            return number
    sys.exit(f"{name} has no line with {text!r} after line {start}; change the mark")


def files_of(sibling: Sibling) -> Mapping[str, str]:
    """The files of a new package, by path."""
    with tempfile.TemporaryDirectory() as folder:
        made = create(sibling, Path(folder))
        return {
            path.relative_to(made).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(made.rglob("*"))
            if path.is_file()
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the tutorials, or with ``--check`` fail if that would change one."""
    check = only_checks(arguments, SCRIPT, __doc__)
    pages = {
        path: renewed(path.read_text(encoding="utf-8"), files_of(sibling))
        for path, sibling in PAGES.items()
    }
    settle(pages, SCRIPT, check=check)


if __name__ == "__main__":
    main()
