"""Two runs of the benchmarks are compared: times with their noise, counts exactly."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_conformance.bench_row import Row
from agentic_kernel_conformance.comparing import Compared, NoResults, compared, left_out, table
from benchmarks.above import turns_per_second
from benchmarks.repeated import repeated
from benchmarks.words import names

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def figure(ours: float, limit: float = 10.0, **fields: Any) -> dict[str, Any]:
    return {
        "name": "one turn", "ours": ours, "unit": "ms", "limit": limit, "limit_is": "a bare call",
        "bar": 1.0, "better": "lower", "held": True, **fields,
    }  # fmt: skip


def several(ours: Sequence[float], limit: float = 10.0, **fields: Any) -> dict[str, Any]:
    """A figure that was measured as often."""
    return repeated([[figure(each, limit, **fields)] for each in ours])[0]


def row(**fields: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "runtime": "mine", "store": "memory", "same": 5, "differs": (), "turns": (100.0, 101.0),
        "pauses": (20.0, 21.0), "kills": (5.0, 5.1), "commits": 1.25, "bytes": 600.0, "pace": 10.0,
    }  # fmt: skip
    return Row(**{**usual, **fields}).record()


def results(place: Path, *records: dict[str, Any]) -> Path:
    """A folder with the results of one benchmark."""
    place.mkdir()
    text = json.dumps({"python": "3.11", "machine": "m", "load": [1, 1], "figures": records})
    (place / "bench.json").write_text(text)
    return place


@pytest.fixture
def verdicts(tmp_path: Path) -> Any:
    """The figures of two records, by name."""

    def found(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Compared]:
        return {
            each.name: each
            for each in compared(results(tmp_path / "a", one), results(tmp_path / "b", other))
        }

    return found


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        pytest.param(several([10, 10.1, 10]), several([12, 12.1, 12]), "worse", id="slower"),
        pytest.param(several([12, 12.1, 12]), several([10, 10.1, 10]), "better", id="faster"),
        pytest.param(several([10, 10.1, 10]), several([10.8, 10.9, 10.8]), "same", id="a-little"),
        pytest.param(several([10, 13, 10]), several([12, 12.1, 12]), "same", id="noise-before"),
        pytest.param(several([10, 10, 10]), several([12, 9, 12.1]), "same", id="noise-after"),
        pytest.param(figure(10), figure(12.9), "same", id="without-readings"),
        pytest.param(figure(10), figure(13.1), "worse", id="beyond-the-default-noise"),
        pytest.param(several([10, 10]), several([20, 20], 20.0), "same", id="slower-machine"),
        pytest.param(
            several([12, 12], better="higher"), several([10, 10], better="higher"), "worse",
            id="fewer-of-what-should-be-many",
        ),
    ],
)  # fmt: skip
def test_a_time_is_judged_by_its_ratio_beyond_the_noise(
    verdicts: Any, before: dict[str, Any], after: dict[str, Any], verdict: str
) -> None:
    (found,) = verdicts(before, after).values()
    assert found.verdict == verdict
    assert not found.fails


@pytest.mark.parametrize(
    ("fields", "name", "verdict", "fails"),
    [
        ({"bytes": 600.125}, "mine on memory: bytes per turn", "worse", True),
        ({"bytes": 599.0}, "mine on memory: bytes per turn", "better", False),
        ({"commits": 1.375}, "mine on memory: commits per turn", "worse", True),
        ({"commits": None}, "mine on memory: commits per turn", "gone", True),
        ({"differs": ("kill",)}, "mine on memory: traces that differ", "worse", True),
        ({"requests": 1.1}, "mine on memory: requests per turn", "new", False),
        ({"kills": (50.0, 51.0)}, "mine on memory: kill", "worse", False),
        ({"pauses": (40.0, 42.0), "pace": 20.0}, "mine on memory: pause", "same", False),
    ],
)
def test_a_count_is_compared_exactly_and_alone_fails(
    verdicts: Any, fields: dict[str, Any], name: str, verdict: str, fails: bool
) -> None:
    found = verdicts(row(), row(**fields))
    assert found[name].verdict == verdict
    assert found[name].fails == fails
    assert any(each.fails for each in found.values()) == fails


def test_a_repair_is_no_worse_because_its_turns_are_of_more_scenarios(tmp_path: Path) -> None:
    broken = row(same=3, differs=("safe points", "kill (no answer for 20 s)"), bytes=33.0)
    one, other = results(tmp_path / "a", broken), results(tmp_path / "b", row(bytes=34.3))
    found = {each.name: each for each in compared(one, other)}
    assert found["mine on memory: traces that differ"].verdict == "better"
    assert found["mine on memory: bytes per turn"].verdict == "unclear"
    assert not any(each.fails for each in found.values())
    told = table(list(found.values()))
    assert "Counts that are unclear: 1; only one run completed their scenarios." in told
    assert "| unclear: only one run completed kill, safe points |" in told
    # Both without the same scenarios: the counts are of the same turns.
    again = results(tmp_path / "c", {**broken, "bytes": 34.3})
    (bytes_moved,) = [each for each in compared(one, again) if each.fails]
    assert bytes_moved.name == "mine on memory: bytes per turn"


def test_a_row_that_the_quick_mode_leaves_out_is_not_gone(tmp_path: Path) -> None:
    slow = row(runtime="slow")
    one = results(tmp_path / "a", row(), slow)
    other = results(tmp_path / "b", row())
    assert any(each.fails for each in compared(one, other))
    file = other / "bench.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "quick": True}))
    found = compared(one, other)
    assert {each.verdict for each in found} == {"same", "unmeasured"}
    assert not any(each.fails for each in found)
    assert "Not measured: 6; the quick mode leaves them out." in table(found)
    # A count that a measured row lost is gone, and so is a row between two quick runs.
    lost = results(tmp_path / "c", row(commits=None))
    text = json.dumps({**json.loads((lost / "bench.json").read_text()), "quick": True})
    (lost / "bench.json").write_text(text)
    assert [each.name for each in compared(one, lost) if each.fails] == [
        "mine on memory: commits per turn"
    ]


SLOW, QUICK = (22.4, 22.3, 22.5), (21.4, 19.8, 20.9)
"""Turns per second of the same code in two runs, with the paces 12.9 and 9.71."""


def test_a_time_whose_machine_changed_its_pace_is_unclear(tmp_path: Path) -> None:
    one = results(tmp_path / "a", row(turns=SLOW, pace=12.9))
    other = results(tmp_path / "b", row(turns=QUICK, pace=9.71))
    for before, after in ((one, other), (other, one)):
        told = table(compared(before, after))
        found = {each.name: each.verdict for each in compared(before, after)}
        assert found["mine on memory: turn above the model's time"] == "unclear"
        assert "| ±30% | unclear: the machine's pace differs by 33% |" in told
        assert "0 of " in told
        assert "Unclear: 3; measure both again" in told


@pytest.mark.parametrize(
    ("readings", "verdict"), [(3, "same"), (9, "same"), (10, "worse"), (20, "worse")]
)
def test_few_readings_of_one_run_have_a_wider_bound(
    verdicts: Any, readings: int, verdict: str
) -> None:
    found = verdicts(row(kills=(5.0,) * readings), row(kills=(6.0,) * readings))
    assert found["mine on memory: kill"].verdict == verdict


def test_a_move_that_no_pace_explains_is_worse(verdicts: Any) -> None:
    found = verdicts(row(turns=SLOW, pace=12.9), row(turns=(9.0, 9.1, 9.0), pace=9.71))
    assert found["mine on memory: turn above the model's time"].verdict == "worse"


def test_what_is_recorded_today_can_be_compared_and_is_the_same_as_itself() -> None:
    """Files of earlier runs have no readings."""
    found = compared(RESULTS, RESULTS)
    assert {each.verdict for each in found} == {"same"}
    assert {"kernel", "loop", "openai_runtime"} <= {each.benchmark for each in found}
    assert "No count got worse." in table(found)
    drawn = sum(
        "series" in each for each in json.loads((RESULTS / "postgres.json").read_text())["figures"]
    )
    assert left_out(RESULTS / "postgres.json") >= drawn > 0


@pytest.mark.parametrize(
    ("took", "model", "apart", "rate"),
    [
        (0.08, 0.04, True, 200.0),
        (0.08, 0.04 + 0.03997, True, None),  # It was published as 268,623 turns per second.
        (0.08, 0.09, True, None),
        (0.08, 0.079, False, 8000.0),
        (0.08, 0.09, False, None),
    ],
)
def test_a_time_above_the_models_that_is_within_the_noise_gives_no_rate(
    took: float, model: float, apart: bool, rate: float | None
) -> None:
    found = turns_per_second(8, took, model, apart=apart)
    assert found == (rate if rate is None else pytest.approx(rate))


def test_several_runs_keep_every_reading_and_show_the_median() -> None:
    (found,) = repeated([[figure(9.0)], [figure(30.0)], [figure(10.0)]])
    assert found["ours"] == 10.0
    assert found["readings"] == [[9.0, 10.0], [30.0, 10.0], [10.0, 10.0]]
    assert repeated([[figure(9.0)]]) == [figure(9.0)]
    assert repeated([[row()], [row()]]) == [row()]


def test_the_table_shows_the_counts_that_got_worse_first(tmp_path: Path) -> None:
    one = results(tmp_path / "a", figure(10), row())
    other = results(tmp_path / "b", figure(20), row(bytes=900.0))
    lines = [line for line in table(compared(one, other)).splitlines() if line.startswith("| b")]
    assert "bytes per turn | 600 | 900 | 1.50× | count | **worse**" in lines[1]
    shown = "one turn | 10 ms (limit 10 ms) | 20 ms (limit 10 ms) | 2.00× | ±30% | **worse**"
    assert shown in lines[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no list `figures`"),
        ('{"figures": [{"row": 1}]}', "a figure cannot be read"),
        ('{"figures": ["x"]}', "a figure cannot be read"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_file_that_holds_no_results_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "kernel.json"
    path.write_text(text)
    with pytest.raises(NoResults, match=said):
        compared(path, path)


def test_an_empty_folder_and_unlike_folders_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoResults, match=r"run python benchmarks/run\.py --into"):
        compared(tmp_path, tmp_path)
    one = results(tmp_path / "a", figure(10))
    (tmp_path / "b").mkdir()
    (one / "bench.json").rename(tmp_path / "b" / "other.json")
    results_again = results(tmp_path / "c", figure(10))
    with pytest.raises(NoResults, match="no benchmark is in both"):
        compared(tmp_path / "b", results_again)


@pytest.mark.parametrize(("size", "code"), [(600.0, 0), (601.0, 1), (None, 2)])
def test_the_exit_status_is_of_the_counts(tmp_path: Path, size: float | None, code: int) -> None:
    one = results(tmp_path / "a", row(), figure(10))
    other = tmp_path / "b"
    if size is not None:
        results(other, row(bytes=size), figure(100))
    command = [sys.executable, "benchmarks/run.py", "compare", str(one), str(other)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == code, done.stderr
    assert ("| bench | one turn |" in done.stdout) == (code < 2)


def test_without_our_packages_the_runner_names_the_remedy(tmp_path: Path) -> None:
    python = [sys.executable, "-S", "benchmarks/run.py", "compare", "a", "b"]
    done = subprocess.run(
        python, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env={}
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("agentic_kernel")
    assert "run it as `nox -s benchmarks -- compare a b`" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_names_are_told_without_our_packages_and_a_wrong_one_is_refused() -> None:
    def told(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-S", "benchmarks/words.py", *words]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env={}
        )

    done = told("--help")
    assert done.returncode == 0, done.stderr
    listed = done.stdout.partition("the benchmarks:\n")[2].partition("\n\n")[0]
    assert tuple(listed.replace(",", "").split()) == names()
    assert "nox -R -s benchmarks -- NAME" in done.stdout
    wrong = told("end_to_end", "kernal")
    assert wrong.returncode == 2
    assert "no benchmark is called kernal; there are claude, copilot_runtime, " in wrong.stderr


def test_the_page_has_the_name_of_every_benchmark() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    said = page.partition("The names are ")[2].partition(".")[0]
    assert tuple(re.findall(r"`(\w+)`", said)) == names()
    assert {"kernel", "end_to_end", "injection", "peers"} < set(names())


def test_to_compare_makes_no_environment_of_the_measurements_anew() -> None:
    """The session that a person names installs nothing and has no environment to make anew."""
    [session] = [
        each
        for each in ast.parse((ROOT / "noxfile.py").read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name == "benchmarks"
    ]
    assert [ast.unparse(each) for each in session.decorator_list] == [
        "nox.session(venv_backend='none')"
    ]
    assert "install" not in {getattr(each, "attr", "") for each in ast.walk(session)}


def test_counts_that_are_gone_are_told_apart_from_those_that_got_worse(tmp_path: Path) -> None:
    one = results(tmp_path / "a", row(), figure(110.0, 40.0))
    other = results(tmp_path / "b", several([111.0, 9.0, 900.0], 106.0))
    told = table(compared(one, other))
    assert "No count got worse. **3 counts are gone:** only the first run has them." in told
    # The time is the same, and the limit beside it is not: so a reader sees why the ratio moved.
    assert "110 ms (limit 40 ms) | 111 ms (limit 106 ms) | 0.38× | over 100% | same" in told
    done = subprocess.run(
        [sys.executable, "benchmarks/run.py", "compare", str(one), str(tmp_path / "none.json")],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
