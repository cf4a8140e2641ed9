"""The command of the kit: ``agentic-kernel-conformance explain | verify``.

Exit codes: 0; 1 if a report is refused; 2 for a mistake on the command line.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .explaining import UnknownRule, explain, overview
from .verifying import NotAReport, ReportRefused, rerun, verify


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = _parser().parse_args(arguments)
    if given.command == "explain":
        return _explain(given.rule)
    return _verify(Path(given.report), Path(given.root), again=given.rerun)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentic-kernel-conformance", description="Explain rules and verify reports."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    explaining = commands.add_parser("explain", help="print the page of a rule, or list the rules")
    explaining.add_argument("rule", nargs="?", help="the name of a rule, such as R14")
    verifying = commands.add_parser(
        "verify", help="refuse a report that was edited or does not fit what is installed"
    )
    verifying.add_argument("report", help="the .json file that --conformance-report wrote")
    verifying.add_argument(
        "--rerun", action="store_true", help="run the same tests again and compare the outcomes"
    )
    verifying.add_argument(
        "--root", default=".", help="the root of the adapter's project (default: this folder)"
    )
    return parser


def _explain(rule: str | None) -> int:
    try:
        text = overview() if rule is None else explain(rule)
    except UnknownRule as error:
        return _refuse(error, 2)
    sys.stdout.write(f"{text.rstrip()}\n")
    return 0


def _verify(path: Path, root: Path, *, again: bool) -> int:
    try:
        document = verify(path, root)
        if again:
            rerun(document, path, root)
    except NotAReport as error:
        return _refuse(error, 2)
    except ReportRefused as error:
        return _refuse(error, 1)
    repeated = "; a rerun gave the same outcomes" if again else ""
    said = f"{path}: {document['verdict']}; not edited, and it fits what is installed{repeated}"
    lines = [said, *(f"PARTIAL: {reason}" for reason in document["partial"])]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _refuse(error: Exception, code: int) -> int:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
