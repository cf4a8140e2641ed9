"""Says on the pages and in the READMEs how a distribution is installed, released or not.

python -m integration.pages.installs            rewrite what is between the marks
python -m integration.pages.installs --check    fail if it is not what this makes

A mark names what is installed: ``<!-- install: agentic-kernel-cli[local] -->``. The text follows
from the version in the packages' pyproject.
"""

from __future__ import annotations

import re
import sys
import tomllib

from agentic_kernel_engine.install import WHEELHOUSE, command

from .sections import DOCS, settle

SCRIPT = "installs.py"
ROOT = DOCS.parent
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    ROOT / "conformance" / "README.md",
    *sorted(DOCS.glob("*.md")),
]
_SECTION = re.compile(r"(<!-- install: (\S+) -->\n)(.*?)(<!-- end of install -->)", re.DOTALL)
_BARE = re.compile(r"pip install [^\n]*agentic-kernel")


def release() -> str:
    """The version of this checkout."""
    text = (ROOT / "packages" / "engine" / "pyproject.toml").read_text(encoding="utf-8")
    found: str = tomllib.loads(text)["project"]["version"]
    return found


def section(requirement: str, version: str) -> str:
    """The text between the marks."""
    said = ""
    if ".dev" in version:
        said = (
            "It is not on a package index yet. In a checkout, `nox -s wheelhouse` makes the "
            f"folder `{WHEELHOUSE}`; then:\n\n"
        )
    return f"\n{said}    {command(requirement, version)}\n\n"


def renewed(text: str, version: str) -> str:
    """A page with every section brought up to date."""
    return _SECTION.sub(lambda found: found[1] + section(found[2], version) + found[4], text)


def main(arguments: list[str]) -> None:
    """Rewrite the pages, or with ``--check`` fail if that would change one."""
    version = release()
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    for path, text in texts.items():
        if bare := _BARE.search(_SECTION.sub("", text)):
            sys.exit(
                f"{path.relative_to(ROOT)}: {bare[0]!r} stands outside the marks; put "
                "<!-- install: NAME --> and <!-- end of install --> around it"
            )
    pages = {path: renewed(text, version) for path, text in texts.items()}
    settle(pages, SCRIPT, check="--check" in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
