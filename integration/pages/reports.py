"""Runs the example on each rule's page, and writes down there what the contract kit said about it.

python -m integration.pages.reports            rewrite what is between the marks
python -m integration.pages.reports --check    fail if a page says something else of its example

Each example must be reported for the rule of its page and for no other. All of a contract's tests
run on it, but for those that take long: random histories and sequences, the corpus of values, and,
where it is not what the page is about, reading ten thousand times.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agentic_kernel_conformance as kit
from agentic_kernel_conformance import RULES, Rule, RuleError
from agentic_kernel_conformance.contract import Contract

from .sections import DOCS, only_checks, renewed, settle

SCRIPT = "reports.py"
RULE_PAGES = {name: DOCS.parent / rule.page for name, rule in RULES.items()}
INDEX = DOCS / "rules" / "index.md"
SHORT = "not one_order and not any_sequence and not _value_ and (not every_read or test_c3)"
"""What is run of each contract; the names of the pages' test modules may be used in it."""

_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ADAPTER = re.compile(r"^class Test(\w+)\(", re.MULTILINE)
_ALIKE = (
    (
        re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        "01234567-89ab-7cde-8f01-23456789abcd",
    ),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}"), "2026-01-02T03:04:05.678901"),
    (re.compile(r"\b0x[0-9a-f]{6,}"), "0x0123456789ab"),
    (re.compile(r"\btmp[a-z0-9_]{8}\b"), "tmp01234567"),
    # A moment without its last zeros is some bytes shorter.
    (re.compile(r"(?<=wrote \d{3},)\d{3}(?= bytes)"), "611"),
)
_SECONDS = 240
_SHOWN = 300


def alike(text: str) -> str:
    """The text with what differs from run to run replaced: ids, moments, addresses, files."""
    for pattern, same in _ALIKE:
        text = pattern.sub(same, text)
    return text


def example(path: Path) -> str:
    """The one example on a page.

    Raises:
        SystemExit: There is none, or more than one.
    """
    found = _EXAMPLE.findall(path.read_text(encoding="utf-8"))
    if len(found) != 1:
        sys.exit(f"{path.relative_to(DOCS)}: {len(found)} Python examples, and not one")
    return str(found[0])


def conform(folder: Path, *options: str, code: int = 1) -> str:
    """What pytest shows of a run in the folder; by default some tests fail, and nothing worse.

    Raises:
        SystemExit: It went otherwise.
    """
    # Neither the level nor the options of the one who runs this, nor what pytest shows in CI.
    foreign = ("PYTEST_", "CONFORMANCE_", "CI", "BUILD_NUMBER")
    env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**env, "PYTHONHASHSEED": "0", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != code:
        sys.exit(
            f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def run(examples: dict[str, str], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The tests that failed on each rule's example, as the kit's own report has them."""
    for name, code in examples.items():
        (folder / f"test_{name.lower()}.py").write_text(code, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    conform(folder, "-q", "--tb=no", "-k", SHORT, "--conformance-report=report", ".")
    rows = json.loads((folder / "report.json").read_text(encoding="utf-8"))["adapters"]
    failed = {
        row["adapter"]: [test for test in row["tests"] if test["outcome"] == "failed"]
        for row in rows
    }
    return {name: failed[_ADAPTER.findall(code)[0]] for name, code in examples.items()}


def report(rule: Rule, failed: list[dict[str, Any]]) -> str:
    """What the kit said about the example of a rule.

    Raises:
        SystemExit: It said nothing, or that another rule is broken.
    """
    reported = {test["detail"].partition(": ")[0] for test in failed}
    if reported != {rule.name}:
        sys.exit(f"{rule.page}: its example is reported for {sorted(reported)}, not {rule.name}")
    seen = failed[0]["detail"].partition(": ")[2]
    others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    told = alike(str(RuleError(rule, seen if len(seen) <= _SHOWN else f"{seen[:_SHOWN]} …")))
    return f"The kit fails `{failed[0]['test']}`{others}:\n\n```text\n{told}\n```"


def index() -> str:
    """Every rule with its page, what it asks for, and the contracts that prove it."""
    rows = ["| rule | | asks for | proven by |", "|---|---|---|---|"]
    for name, rule in RULES.items():
        page = Path(rule.page).name
        proven = ", ".join(f"`{contract}`" for contract in _contracts(name))
        rows.append(f"| [{name}]({page}) | {rule.title} | {rule.asks} | {proven} |")
    return "\n".join(rows)


def _contracts(rule: str) -> list[str]:
    """The contracts that have a test of the rule."""
    return [
        name
        for name in kit.__all__
        if inspect.isclass(contract := getattr(kit, name))
        and issubclass(contract, Contract)
        and any(
            rule in mark.args
            for _, test in inspect.getmembers(contract, inspect.isfunction)
            for mark in getattr(test, "pytestmark", ())
            if mark.name == "rule"
        )
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages, or with ``--check`` fail if that would change one."""
    check = only_checks(arguments, SCRIPT, __doc__)
    examples = {name: example(path) for name, path in RULE_PAGES.items()}
    with tempfile.TemporaryDirectory() as folder:
        failed = run(examples, Path(folder))
    pages = {INDEX: renewed(INDEX.read_text(encoding="utf-8"), "index", SCRIPT, index())}
    for name, path in RULE_PAGES.items():
        text = path.read_text(encoding="utf-8")
        pages[path] = renewed(text, "report", SCRIPT, report(RULES[name], failed[name]))
    settle(pages, SCRIPT, check=check)


if __name__ == "__main__":
    main()
