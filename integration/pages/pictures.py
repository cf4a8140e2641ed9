"""Draws the pictures of the docs, so that a page loads no script to draw them.

python -m integration.pages.pictures            draw those whose source has changed
python -m integration.pages.pictures --check    fail if a picture is not that of its source

A picture is two files in ``docs/pictures``: ``NAME.mmd``, the source in Mermaid, and ``NAME.svg``,
which Mermaid draws from it in a real browser. The last line of the SVG is a comment with the
digests of the source and of the drawing, so the check draws nothing. The sources of `MADE` are made
from code; people write the others.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from integration.peers.node import installed, node

from .hidden import picture
from .sections import DOCS, only_checks
from .states import diagram

FOLDER: Final = DOCS / "pictures"
MADE: Final[Mapping[str, Callable[[], str]]] = {"states": diagram, "model": picture}
SECONDS: Final = 120.0
"""How long drawing may take."""
_STAMP: Final = re.compile(r"\n<!-- source (\w+), drawing (\w+) -->\n\Z")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what has changed, or with ``--check`` fail if a picture has."""
    check = only_checks(arguments, "pictures.py", __doc__)
    for name, make in MADE.items():
        path, text = FOLDER / f"{name}.mmd", make() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            if check:
                sys.exit(f"{path.name} is not what the code says; {_REMEDY}")
            path.write_text(text, encoding="utf-8")
    stale = [path.stem for path in sorted(FOLDER.glob("*.mmd")) if not is_current(path)]
    orphans = sorted({path.stem for path in FOLDER.glob("*.svg")} - _names())
    if orphans:
        sys.exit(f"no source for {', '.join(orphans)}: remove the SVG, or add its .mmd")
    if stale and check:
        sys.exit(f"{', '.join(stale)}: the SVG is not that of its source; {_REMEDY}")
    if stale:
        draw(stale)


_REMEDY: Final = "run python -m integration.pages.pictures and look at the change"


def _names() -> set[str]:
    return {path.stem for path in FOLDER.glob("*.mmd")}


def is_current(source: Path) -> bool:
    """True if the SVG beside the source was drawn from it, and not changed since."""
    svg = source.with_suffix(".svg")
    text = svg.read_text(encoding="utf-8") if svg.exists() else ""
    found = _STAMP.search(text)
    drawn = text[: found.start()] if found else text
    return bool(
        found and found.groups() == (_digest(source.read_text(encoding="utf-8")), _digest(drawn))
    )


def draw(names: list[str]) -> None:
    """Draw these pictures in a browser, and stamp each.

    Raises:
        PeerError: The browser cannot be installed.
        CalledProcessError: A source is not Mermaid; the error of Mermaid is on stderr.
    """
    modules = installed("pictures") / "node_modules"
    script = Path(__file__).with_name("render.mjs")
    command = [str(node()), str(script), str(modules), str(FOLDER), *names]
    subprocess.run(command, check=True, timeout=SECONDS)
    for name in names:
        path = FOLDER / f"{name}.svg"
        drawn = path.read_text(encoding="utf-8")
        source = _digest((FOLDER / f"{name}.mmd").read_text(encoding="utf-8"))
        path.write_text(
            f"{drawn}\n<!-- source {source}, drawing {_digest(drawn)} -->\n", encoding="utf-8"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
