"""The command of the kit: ``agentic-kernel-conformance explain | verify | bench | compare``.

Exit codes: 0; 1 if a report is refused, if a trace differs from ours, or if a count got worse; 2
for a mistake on the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

from .bench import MOST_ROUNDS, ROUNDS, NotBenchable, checked_rounds, measured
from .bench_row import table
from .comparing import NoResults, compared, left_out
from .comparing import table as comparison
from .explaining import UnknownRule, explain, overview
from .verifying import NotAReport, ReportRefused, rerun, verify


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = _parser().parse_args(arguments)
    if given.command == "explain":
        return _explain(given.rule)
    if given.command == "bench":
        return _bench(given.runtime, given.store, given.rounds, given.json)
    if given.command == "compare":
        return _compare(given.before, given.after)
    return _verify(Path(given.report), Path(given.root), again=given.rerun)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentic-kernel-conformance",
        description="Explain rules, verify reports, measure, and compare.",
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
    benching = commands.add_parser(
        "bench", help="print the row of a runtime or a store of yours beside ours"
    )
    benching.add_argument(
        "--runtime", metavar="MODULE:NAME",
        help="a callable that takes a store and returns a runtime and its Work",
    )  # fmt: skip
    benching.add_argument(
        "--store", metavar="MODULE:NAME", help="a callable that returns an empty store"
    )
    benching.add_argument(
        "--rounds", type=checked_rounds, default=ROUNDS, metavar="N",
        help=f"how often each time is read, 1 to {MOST_ROUNDS} (default: {ROUNDS})",
    )  # fmt: skip
    benching.add_argument("--json", metavar="FILE", help="write the rows there as well")
    comparing = commands.add_parser(
        "compare", help="compare two recordings of bench --json: times with their noise, counts"
    )
    comparing.add_argument("before", metavar="A", type=Path, help="a file or folder of results")
    comparing.add_argument("after", metavar="B", type=Path, help="the same of the other run")
    return parser


def _compare(before: Path, after: Path) -> int:
    try:
        found, left = compared(before, after), left_out(after)
    except (NoResults, OSError) as error:
        return _refuse(error, 2)
    sys.stdout.write(f"{comparison(found, left)}\n")
    return 1 if any(each.fails for each in found) else 0


def _bench(runtime: str | None, store: str | None, rounds: int, file: str | None) -> int:
    try:
        before = os.getloadavg()[0]
        rows = [row.record() for row in measured(runtime, store, rounds)]
        if file is not None:
            document = {
                "python": platform.python_version(),
                "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
                "load": [round(before, 2), round(os.getloadavg()[0], 2)],
                "figures": rows,
            }
            text = json.dumps(document, indent=2, ensure_ascii=False)
            Path(file).write_text(f"{text}\n", encoding="utf-8")
    except (NotBenchable, OSError) as error:
        return _refuse(error, 2)
    sys.stdout.write(f"{table(rows)}\n")
    return 1 if any(row["differs"] for row in rows) else 0


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
    if isinstance(error, OSError) and error.filename is not None:
        said = f"{error.filename}: {error.strerror}"
    else:
        said = str(error)
    sys.stderr.write(f"{said}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
