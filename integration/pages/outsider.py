"""Runs the contract kit on the faulty store of `docs/examples/acme`; shows what its author sees.

python -m integration.pages.outsider            rewrite what is between the marks
python -m integration.pages.outsider --check    fail if the kit says something else about it now

Which history fails first, and how it is shrunk, may differ between interpreters, and the lines of
the kit move when it is changed; what is checked is all the rest.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from .reports import alike, conform
from .sections import DOCS, renewed, settle

SCRIPT = "outsider.py"
PAGE = DOCS / "conformance.md"
PACKAGE = DOCS / "examples" / "acme"
OPTIONS = ("--tb=short", "--conformance-report=matrix")

_SHOWN = (
    "test_what_racing_hosts_were_told_has_one_order",
    "test_a_commit_on_another_version_conflicts",
)
_TITLE = re.compile(r"^_+ \w+\.(\S+) _+$", re.MULTILINE)
_PLACES = (
    (re.compile(r"^\S*/(agentic_kernel_conformance/\S+\.py)", re.MULTILINE), r".../\1"),
    (re.compile(r"^\S*/(contextlib\.py)", re.MULTILINE), r".../\1"),
)
_LAST = re.compile(r"^=+ (.*) in [\d.]+s(?: \(.*\))? =+$", re.MULTILINE)
_FRAMES = re.compile(r"^\.\.\./.*\n(?:    .*\n)*", re.MULTILINE)
_HISTORY = re.compile(
    r"(seen:  in history ).*?(\nE +asked:)|(found with seed ).*?$", re.DOTALL | re.MULTILINE
)
_RANDOM = re.compile(r"^(?:- )?(?:AcmeStore test_|in all: ).*$", re.MULTILINE)


def run(folder: Path) -> tuple[str, str]:
    """What the terminal shows, and the matrix."""
    package = shutil.copytree(
        PACKAGE, folder / "acme", ignore=shutil.ignore_patterns("__pycache__")
    )
    output = conform(package, *OPTIONS)
    return output, (package / "matrix.md").read_text(encoding="utf-8")


def excerpt(output: str) -> str:
    """The failures that are shown, and the end."""
    _, _, failures = output.partition("= FAILURES =")
    failures, line, end = failures.partition("\n===")
    parts = _TITLE.split(failures)
    titles = _TITLE.finditer(failures)
    told = {
        name: f"{title.group()}{body.rstrip()}"
        for title, name, body in zip(titles, parts[1::2], parts[2::2], strict=True)
    }
    missing = [name for name in _SHOWN if name not in told]
    if missing:
        sys.exit(f"the kit no longer fails {', '.join(missing)} on the store of {PACKAGE.name}")
    shown = "\n...\n".join([*(told[name] for name in _SHOWN), f"{line}{end}".strip()])
    for pattern, same in _PLACES:
        shown = pattern.sub(same, shown)
    return alike(_LAST.sub(lambda last: f" {last[1]} in 7.00s ".center(80, "="), shown))


def firm(text: str) -> str:
    """The text without the history, how far it got, and where in the kit a test stopped."""
    return _FRAMES.sub("", _RANDOM.sub("", _HISTORY.sub(r"\1\2\3", text)))


def main(arguments: list[str]) -> None:
    """Rewrite the page, or with ``--check`` fail if the kit says something else now."""
    with tempfile.TemporaryDirectory() as folder:
        output, matrix = run(Path(folder))
    before = PAGE.read_text(encoding="utf-8")
    command = f"$ pytest {' '.join(OPTIONS)}\n..."
    after = renewed(before, "failure", SCRIPT, f"```text\n{command}\n{excerpt(output)}\n```")
    table = matrix.partition("\n\n")[2].partition("\n## ")[0].rstrip()
    after = renewed(after, "outcome", SCRIPT, table)
    check = "--check" in arguments
    settle({PAGE: before if check and firm(before) == firm(after) else after}, SCRIPT, check=check)


if __name__ == "__main__":
    main(sys.argv[1:])
