"""Runs the kit on the faulty store of `docs/examples/acme` and on the mended one, for its page.

python -m integration.pages.outsider            rewrite what is between the marks
python -m integration.pages.outsider --check    fail if the kit says something else about it now

Which history fails first, and how it is shrunk, may differ between interpreters, and the lines of
the kit move when it is changed; what is checked is all the rest.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .reports import alike, conform
from .sections import DOCS, only_checks, renewed, settle

SCRIPT = "outsider.py"
PAGE = DOCS / "conformance.md"
PACKAGE = DOCS / "examples" / "acme"
MENDED = PACKAGE / "mended.py"
BADGES = DOCS / "plots"
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
_MACHINES = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "0123456789abcdef" * 4),
    (re.compile(r"(CPython )\d[\w.]*"), r"\g<1>3.13.0"),
    (re.compile(r"Linux-[\w.+-]*"), "Linux-6.1-x86_64-with-glibc2.36"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"), "2026-01-02T03:04:05+00:00"),
)
"""What differs from machine to machine and from run to run, and what the page shows."""
_LAST = re.compile(r"^=+ (.*) in [\d.]+s(?: \(.*\))? =+$", re.MULTILINE)
_FRAMES = re.compile(r"^\.\.\./.*\n(?:    .*\n)*", re.MULTILINE)
_HISTORY = re.compile(
    r"(seen:  in history ).*?(\nE +asked:)|(found with seed ).*?$", re.DOTALL | re.MULTILINE
)
_RANDOM = re.compile(r"^(?:- )?(?:AcmeStore test_|in all: ).*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of the contract on the package."""

    folder: Path
    output: str

    def report(self, end: str) -> str:
        """The report in one of its forms, with what differs between machines replaced."""
        text = (self.folder / f"matrix.{end}").read_text(encoding="utf-8")
        for pattern, same in _MACHINES:
            text = pattern.sub(same, text)
        return text


def run(folder: Path, *, mended: bool) -> Ran:
    """Run the contract on a copy of the package in the folder."""
    package = shutil.copytree(
        PACKAGE,
        folder / ("mended" if mended else "acme"),
        ignore=shutil.ignore_patterns("__pycache__", MENDED.name),
    )
    if mended:
        shutil.copy(MENDED, package / "src" / "acme_store" / "__init__.py")
    return Ran(package, conform(package, *OPTIONS, code=0 if mended else 1))


def verified(ran: Ran) -> str:
    """What the terminal shows if the faulty store's report is edited, and then verified."""
    path = ran.folder / "matrix.json"
    shown = [_asked(ran, 0)]
    honest = path.read_text(encoding="utf-8")
    path.write_text(honest.replace('"failed"', '"passed"'), encoding="utf-8")
    shown += ['$ sed -i \'s/"failed"/"passed"/\' matrix.json', _asked(ran, 1)]
    path.write_text(honest, encoding="utf-8")
    text = "\n".join(shown)
    for pattern, same in _MACHINES:
        text = pattern.sub(same, text)
    return text


def _asked(ran: Ran, code: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "agentic_kernel_conformance", "verify", "matrix.json"],
        cwd=ran.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != code:
        sys.exit(f"verify ended with {done.returncode}: {done.stdout}{done.stderr}")
    told = (done.stdout + done.stderr).strip()
    return f"$ agentic-kernel-conformance verify matrix.json; echo $?\n{told}\n{code}"


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the page, or with ``--check`` fail if the kit says something else now."""
    check = only_checks(arguments, SCRIPT, __doc__)
    with tempfile.TemporaryDirectory() as folder:
        faulty = run(Path(folder), mended=False)
        mended = run(Path(folder), mended=True)
        refusal = verified(faulty)
        reports = {"outcome": faulty.report("md"), "mended": mended.report("md")}
        document = mended.report("json")
        badges = {
            BADGES / "acme-failed.svg": faulty.report("svg"),
            BADGES / "acme-passed.svg": mended.report("svg"),
        }
    before = PAGE.read_text(encoding="utf-8")
    command = f"$ pytest {' '.join(OPTIONS)}\n..."
    text = f"```text\n{command}\n{excerpt(faulty.output)}\n```"
    after = renewed(before, "failure", SCRIPT, text)
    for name, report in reports.items():
        after = renewed(after, name, SCRIPT, f"```markdown\n{report.rstrip()}\n```")
    head, _, _ = document.partition('  "rules": {')
    after = renewed(after, "json", SCRIPT, f"```json\n{head}  ...\n```")
    after = renewed(after, "verify", SCRIPT, f"```text\n{refusal}\n```")
    page = before if check and firm(before) == firm(after) else after
    settle({PAGE: page, **badges}, SCRIPT, check=check)


if __name__ == "__main__":
    main()
