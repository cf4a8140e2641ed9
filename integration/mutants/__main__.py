"""``python -m integration.mutants``: plant faults one at a time, and print which ones survive."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from .concern import CHECKS, ROOT, SECONDS, Concerns, measure
from .listed import listed_mutants
from .planting import Bed
from .sites import Mutant, mutants_of
from .verdict import EQUIVALENT, NOT_RUN, SURVIVED, UNDECIDED, Verdict, scores, table

PACKAGES = (
    "packages/engine/src/agentic_kernel_engine",
    "packages/file/src/agentic_kernel_file",
    "packages/postgres/src/agentic_kernel_postgres",
)
NAMED = (
    f"{PACKAGES[0]}/host",
    f"{PACKAGES[0]}/loop",
    f"{PACKAGES[0]}/plans",
    f"{PACKAGES[1]}",
    f"{PACKAGES[2]}",
)
"""The folders of the Host, the Loop, FileStore and PostgresStore."""
LEFT_OUT = ("__init__.py", "memory")
"""Modules whose names begin so have no behaviour of their own, or belong to a memory."""
LEFT = (SURVIVED, NOT_RUN, UNDECIDED)
"""The outcomes of a mutant that no check noticed."""
JUDGED = Path(__file__).with_name("judged.toml")
DRAWN = Path(__file__).with_name("drawn.txt")
"""The mutants that were drawn once with the seed 0, one name a line."""
BAR = 0.9
"""The share of the mutants that are not equivalent which the checks must notice."""


def files(only: Sequence[str]) -> list[str]:
    """Return the named files, or those whose path has one of the given texts.

    Raises:
        SystemExit: None has.
    """
    found = [
        str(path.relative_to(ROOT))
        for folder in NAMED
        for path in sorted((ROOT / folder).glob("*.py"))
        if not path.name.startswith(LEFT_OUT)
    ]
    chosen = [file for file in found if not only or any(text in file for text in only)]
    if not chosen:
        raise SystemExit(f"no named file has one of {', '.join(only)} in its path")
    return chosen


def drawn(chosen: Sequence[str], count: int, seed: int | None) -> list[Mutant]:
    """Mutants of these files, drawn at random.

    Without a seed, `DRAWN` names them, so that the scores of two versions of the code are about the
    same faults. If the code of one is gone, another one is drawn in its place. With a seed, all are
    drawn: the same ones for the same seed and code.
    """
    sites = _named(mutant for file in chosen for mutant in mutants_of(file, _text(file)))
    names = DRAWN.read_text(encoding="utf-8").splitlines() if seed is None else []
    found = [sites.pop(name) for name in names if name in sites][:count]
    left = list(sites.values())
    return found + random.Random(seed or 0).sample(left, min(count - len(found), len(left)))


def _named(mutants: Iterable[Mutant]) -> dict[str, Mutant]:
    """The mutants by their keys, each with its number among those that have the same key."""
    seen: Counter[str] = Counter()
    found = {}
    for mutant in mutants:
        seen[mutant.key()] += 1
        found[f"{mutant.key()} #{seen[mutant.key()]}"] = mutant
    return found


def judged(mutants: Sequence[Mutant]) -> dict[str, str]:
    """Those of the mutants that were judged equivalent: the place of each, and why.

    An entry of the file may say the ``text`` of the line, if its fault reads the same as another
    one of that function.
    """
    entries: dict[str, list[dict[str, str]]] = {}
    for entry in tomllib.loads(JUDGED.read_text(encoding="utf-8"))["mutant"]:
        entries.setdefault(f"{entry['file']} {entry['fault']}", []).append(entry)
    found = {}
    for mutant in mutants:
        for entry in entries.get(mutant.key(), []):
            line = _text(mutant.file).splitlines()[mutant.line - 1].strip()
            if entry.get("text", line) == line:
                found[_place(mutant.key(), mutant.line)] = entry["why"]
    return found


def tried(
    mutants: Sequence[Mutant],
    concerns: Concerns,
    at_once: int,
    known: dict[str, str],
    write: Callable[[Sequence[Verdict]], None],
) -> list[Verdict]:
    """Plant one after another, ``at_once`` side by side, and write what came of them after each."""
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        beds: SimpleQueue[Bed] = SimpleQueue()
        for number in range(at_once):
            beds.put(Bed(Path(folder, str(number)), PACKAGES))

        def judge(mutant: Mutant) -> Verdict:
            place = _place(mutant.key(), mutant.line)
            if place in known:
                return Verdict(mutant, EQUIVALENT, known[place])
            bed = beds.get()
            tests = concerns.tests(mutant)
            try:
                return bed.judge(mutant, tests, concerns.seconds(tests))
            finally:
                beds.put(bed)

        pool = ThreadPoolExecutor(at_once)
        try:
            for number, verdict in enumerate(pool.map(judge, mutants), 1):
                verdicts.append(verdict)
                write(verdicts)
                print(f"{number} of {len(mutants)}: {verdict.line()}", flush=True)
        except KeyboardInterrupt:
            print(f"stopped after {len(verdicts)} of {len(mutants)}", file=sys.stderr)
        finally:
            pool.shutdown(cancel_futures=True)
    return verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if the checks notice less than `BAR` of what was planted."""
    parser = argparse.ArgumentParser(prog="python -m integration.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="seeded mutants (default: 200)")
    parser.add_argument(
        "--seed", type=int, help="draw all of them anew, and not those of drawn.txt"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help="files whose path ..."
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many side by side (default: 2)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"of tests for each (default: {SECONDS:g})"
    )
    parser.add_argument("--listed", action="store_true", help="the faults chosen by hand alone")
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only the survivors of an earlier --report"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the verdicts as JSON, after each mutant; those in it already are kept",
    )
    parser.add_argument(
        "--also", nargs="+", default=[], metavar="TEST", help="tests to run for each mutant, first"
    )
    parser.add_argument(
        "--measured",
        type=Path,
        metavar="FOLDER",
        help="use what was measured there, and measure only if the folder is not there",
    )
    given = parser.parse_args(arguments)
    if given.count < 0 or given.jobs < 1:
        parser.error("--count must be 0 or more, and --jobs 1 or more")
    chosen = files(given.only)
    mutants = [mutant for mutant in listed_mutants(ROOT) if mutant.file in chosen]
    if not given.listed:
        mutants += drawn(chosen, given.count, given.seed)
    if given.again is not None:
        known = json.loads(given.again.read_text(encoding="utf-8"))["mutants"]
        survived = {(e["file"], e["fault"]) for e in known if e["outcome"] in LEFT}
        mutants = [mutant for mutant in mutants if (mutant.file, mutant.short()) in survived]
    had = _read(given.report, mutants) if given.report is not None else []
    begun = {_place(each.mutant.key(), each.mutant.line) for each in had}

    def write(new: Sequence[Verdict]) -> None:
        if given.report is not None:
            _write(given.report, [*had, *new], given.seed)

    with tempfile.TemporaryDirectory() as own:
        folder = given.measured or Path(own)
        if given.measured is None or not folder.exists():
            print(f"the checks run once, to see which lines each of them runs: {' '.join(CHECKS)}")
            measure(folder, PACKAGES)
        concerns = Concerns(folder, given.seconds, given.also)
        left = [mutant for mutant in mutants if _place(mutant.key(), mutant.line) not in begun]
        verdicts = had + tried(left, concerns, given.jobs, judged(left), write)
    for verdict in verdicts:
        if verdict.outcome in LEFT:
            print(
                f"\n{verdict.line()}\n    in {verdict.mutant.function}; key: {verdict.mutant.key()}"
            )
    print("\n".join(["", *table(verdicts)]))
    return 0 if len(verdicts) == len(mutants) and scores(verdicts)["all"].share >= BAR else 1


def _read(path: Path, mutants: Sequence[Mutant]) -> list[Verdict]:
    """The verdicts of a run that was stopped: those in its report about mutants of this run."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["mutants"]
    wanted = {_place(mutant.key(), mutant.line): mutant for mutant in mutants}
    return [
        Verdict(wanted[place], row["outcome"], row["by"], row["tests"])
        for row in rows
        if (place := _place(f"{row['file']} {row['function']}: {row['fault']}", row["line"]))
        in wanted
    ]


def _place(key: str, line: int) -> str:
    """Two faults of one function may read the same."""
    return f"{key} at {line}"


def _write(path: Path, verdicts: Sequence[Verdict], seed: int | None) -> None:
    rows = [
        {
            "file": each.mutant.file,
            "function": each.mutant.function,
            "line": each.mutant.line,
            "fault": each.mutant.short(),
            "outcome": each.outcome,
            "by": each.by,
            "tests": each.tests,
        }
        for each in verdicts
    ]
    text = json.dumps({"seed": seed, "mutants": rows}, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
