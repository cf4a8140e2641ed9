"""Says on the pages and in the READMEs how a distribution is installed, released or not.

python -m integration.pages.installs            rewrite what is between the marks
python -m integration.pages.installs --check    fail if it is not what this makes

A mark names what is installed: ``<!-- install: agentic-kernel-cli[local] -->``. The text follows
from the version in the packages' pyproject. The mark ``<!-- key -->`` stands on a page whose
programs ask a model of OpenAI; its text says so, and which programs need no key. A workflow on a
page gets, before a release, the variables that `agentic-kernel new` gives to its own workflows.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from agentic_kernel_engine.install import WHEELHOUSE, command

from .sections import DOCS, only_checks, settle

SCRIPT = "installs.py"
ROOT = DOCS.parent
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    ROOT / "conformance" / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("tutorials/*.md")),
]
_SECTION = re.compile(r"(<!-- install: (\S+) -->\n)(.*?)(<!-- end of install -->)", re.DOTALL)
_KEY = re.compile(r"(<!-- key -->\n)(.*?)(<!-- end of key -->)", re.DOTALL)
_JOB = re.compile(
    r"^(```yaml title=\"\.github/workflows/.*?^    timeout-minutes: \d+\n)"
    r"(?:    env:\n(?:      [^\n]*\n)+)?(.*?^```$)",
    re.DOTALL | re.MULTILINE,
)
"""A workflow of one job on a page; between the groups stand the variables of the job."""
_TEMPLATE = ROOT.joinpath(
    *("packages", "new", "src", "agentic_kernel_new", "templates", "common"),
    *(".github", "workflows", "tests.yml.jinja"),
)
_UNRELEASED = re.compile(
    r"^\{%- if not released %\}\n(.*?)^\{%- endif %\}\n", re.DOTALL | re.MULTILINE
)
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


def key(page: Path) -> str:
    """The text about the key that the programs of a page need."""
    local = Path(os.path.relpath(DOCS / "local.md", page.parent)).as_posix()
    return (
        "\nThe program asks a model of OpenAI, with the key in `OPENAI_API_KEY`. Without a key, "
        f"[A local model]({local}) has programs\nthat run, with a tool and with a typed answer. "
        "Its small model needs an\n`Example` of each tool: without one it repeats a call until "
        "`max_repeats` fails the Task with `engine/loop`.\n\n"
    )


def variables(version: str) -> str:
    """The variables of a job that say where the wheels are; none if there is a release."""
    if ".dev" not in version:
        return ""
    found = _UNRELEASED.search(_TEMPLATE.read_text(encoding="utf-8"))
    if found is None:
        sys.exit(f"{_TEMPLATE.relative_to(ROOT)}: has no part `if not released`; write it again")
    return re.sub(r"\{% (?:end)?raw %\}", "", found[1])


def renewed(text: str, version: str, page: Path) -> str:
    """A page with every section brought up to date."""
    text = _KEY.sub(lambda found: found[1] + key(page) + found[3], text)
    text = _JOB.sub(lambda found: found[1] + variables(version) + found[2], text)
    return _SECTION.sub(lambda found: found[1] + section(found[2], version) + found[4], text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages, or with ``--check`` fail if that would change one."""
    check = only_checks(arguments, SCRIPT, __doc__)
    version = release()
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    for path, text in texts.items():
        if bare := _BARE.search(_SECTION.sub("", text)):
            sys.exit(
                f"{path.relative_to(ROOT)}: {bare[0]!r} stands outside the marks; put "
                "<!-- install: NAME --> and <!-- end of install --> around it"
            )
        if path.match("packages/*/README.md") and not _SECTION.search(text):
            sys.exit(
                f"{path.relative_to(ROOT)}: says nowhere how the package is installed; add "
                "<!-- install: NAME --> and <!-- end of install -->"
            )
    pages = {path: renewed(text, version, path) for path, text in texts.items()}
    settle(pages, SCRIPT, check=check)


if __name__ == "__main__":
    main()
