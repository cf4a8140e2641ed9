"""The plugin from outside, as a third party has it: guard, features, levels, report."""

from __future__ import annotations

import json
import re

import pytest

from agentic_kernel_conformance import StoreContract
from agentic_kernel_conformance.totals import planned

pytest_plugins = ["pytester"]

_STORE = """
import pytest
from agentic_kernel_conformance import StoreContract, StoreFeatures
from agentic_kernel_engine import MemoryStore

class TestAcmeStore(StoreContract):
    {body}

    @pytest.fixture
    def store(self):
        return MemoryStore()
"""
_STRICT = """
[pytest]
strict = true
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
_ALL = sum(test.count for test in planned(StoreContract).values())
_GUARD = "nothing_is_overridden"
_ONE = "what_is_inserted_is_loaded"


@pytest.fixture(autouse=True)
def _the_same_output_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CI pytest's summary repeats a failure's whole message."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)


def run(
    pytester: pytest.Pytester, body: str, select: str, *options: str, module: str = _STORE
) -> pytest.RunResult:
    """Run one adapter's tests that match ``select``, in a project with strict settings."""
    pytester.makeini(_STRICT)
    pytester.makepyfile(module.replace("{body}", body))
    return pytester.runpytest("--assert=plain", "-k", select, "-p", "no:cacheprovider", *options)


def test_fixtures_are_all_that_an_adapter_supplies(pytester: pytest.Pytester) -> None:
    result = run(pytester, "pass", f"{_GUARD} or store_is_empty")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [f"AcmeStore (StoreContract): passed 3 of {_ALL}, {_ALL - 3} not run"]
    )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("def test_an_id_is_opaque(self): pass", "test_an_id_is_opaque"),
        ("test_an_id_is_opaque = None", "test_an_id_is_opaque"),
        (
            "@pytest.mark.xfail\n    def test_an_id_is_opaque(self): pass",
            "test_an_id_is_opaque",
        ),
        ("@pytest.fixture\n    def level(self): return None", "level"),
    ],
    ids=["replaced", "deleted", "excused without a reason", "another fixture"],
)
def test_the_guard_fails_when_the_contract_is_not_whole(
    pytester: pytest.Pytester, body: str, named: str
) -> None:
    result = run(pytester, body, _GUARD, "--tb=short", "-rx")
    result.stdout.fnmatch_lines([f"*{named}*"])
    assert result.parseoutcomes().get("passed", 0) == 0


def test_an_override_with_a_reason_is_excused_and_not_passed(pytester: pytest.Pytester) -> None:
    body = (
        '@pytest.mark.xfail(reason="ids are integers here", raises=AssertionError)\n'
        "    async def test_an_id_is_opaque(self, store):\n"
        "        raise AssertionError"
    )
    result = run(pytester, body, f"{_GUARD} or id_is_opaque")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [f"AcmeStore (StoreContract): passed 1 of {_ALL}, 1 excused: test_an_id_is_opaque, *"]
    )


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("def test_nothing_is_overridden(self): pass", "replaces test_nothing_is_overridden"),
        ("pytestmark = pytest.mark.xfail(reason='later')", "excuses every test"),
    ],
    ids=["guard replaced", "all excused"],
)
def test_an_adapter_that_disarms_the_guard_is_not_run(
    pytester: pytest.Pytester, body: str, how: str
) -> None:
    result = run(pytester, body, _ONE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*TestAcmeStore {how}*"])


def test_a_closed_feature_is_counted_by_name_and_never_as_passed(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "pass", f"{_ONE} or opened_again or readers_do_not_wait", "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [f"AcmeStore (StoreContract): passed 1 of {_ALL}, 2 closed: durable, holdable, *"]
    )
    result.stdout.fnmatch_lines(["*feature closed: durable*"])


def test_a_feature_declared_without_its_fixture_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, "features = StoreFeatures(durable=True)", "opened_again")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*declares durable=True and has no `reopen` fixture*"])


def test_features_of_another_contract_fail(pytester: pytest.Pytester) -> None:
    body = (
        "from agentic_kernel_conformance import RuntimeFeatures\n    features = RuntimeFeatures()"
    )
    result = run(pytester, body, "opened_again")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*RuntimeFeatures, which has no feature 'durable'*"])


def test_an_adapter_without_its_fixture_is_told_which(pytester: pytest.Pytester) -> None:
    module = (
        "from agentic_kernel_conformance import StoreContract\n"
        "class TestAcmeStore(StoreContract): pass\n"
    )
    result = run(pytester, "", _ONE, module=module)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*TestAcmeStore has no `store` fixture; supply it*"])


def test_a_store_that_tests_share_is_found_out(pytester: pytest.Pytester) -> None:
    module = _STORE.replace("return MemoryStore()", "return SHARED") + "\nSHARED = MemoryStore()\n"
    result = run(pytester, "pass", "store_is_empty", module=module)
    result.assert_outcomes(passed=1, failed=1)


def test_a_broken_rule_says_what_was_seen_what_is_asked_and_where_to_read(
    pytester: pytest.Pytester,
) -> None:
    body = (
        "@pytest.fixture\n    def store(self):\n        return Forgetful()\n\n"
        "class Forgetful(MemoryStore):\n"
        "    async def insert(self, record, events=()):\n"
        "        await super().insert(record)\n\n"
        "class TestOther:\n    pass"
    )
    module = _STORE[: _STORE.index("    @pytest.fixture")]
    result = run(pytester, body, "id_is_its_version", "--tb=short", module=module)
    result.stdout.fnmatch_lines(
        [
            "*rule R15 (events) is broken",
            "*seen: *and not*",
            "*asked: events are ordered by (version, index)*",
            "*see: *agentic-kernel-conformance explain R15",
            f"AcmeStore (StoreContract): passed 0 of {_ALL}, 1 failed: R15, {_ALL - 1} not run",
        ]
    )


@pytest.mark.parametrize("name", ["report", "report.json", "report.md", "sub/folder/report"])
def test_the_report_is_written_as_json_and_markdown(pytester: pytest.Pytester, name: str) -> None:
    run(pytester, "pass", f"{_ONE} or opened_again", f"--conformance-report={name}")
    stem = pytester.path / name.removesuffix(".json").removesuffix(".md")
    (row,) = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))["adapters"]
    assert row["adapter"] == "AcmeStore"
    assert row["contract"] == "StoreContract"
    assert row["features"] == {
        "durable": False, "processes": False, "threads": False, "leases": False,
        "holdable": False, "damageable": False, "cuttable": False, "weighed": False,
        "counted": False, "synced": False, "failable": False, "reads_older": False,
        "refuses_newer": False,
    }  # fmt: skip
    assert (row["total"], row["passed"], row["closed"], row["failed"]) == (_ALL, 1, 1, 0)
    assert row["not_run"] == _ALL - 2
    assert (row["rules"]["C6"], row["rules"]["R1"]) == ("not run", "not run")
    assert re.fullmatch(r"1 of \d+, \d+ not run(, durable(, synced)? closed)?", row["cells"]["C6"])
    table = stem.with_suffix(".md").read_text(encoding="utf-8")
    assert "| rule | AcmeStore |" in table
    assert f"| C6: read your writes | {row['cells']['C6']} |" in table
    assert re.match(r"0 of \d+, ", row["cells"]["durable"])
    assert "durable closed" in row["cells"]["durable"]
    assert f"| durable: durability | {row['cells']['durable']} |" in table
    assert f"| passed | 1 of {_ALL} |" in table
    assert f"PARTIAL 1 of {_ALL}" in stem.with_suffix(".svg").read_text(encoding="utf-8")


def test_the_level_comes_from_the_option_or_the_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "def test_level(conformance_level): print(conformance_level)\n"
    result = run(pytester, "", "level", "-s", module=module)
    result.stdout.fnmatch_lines(["*name='quick', reads=10000, extras=25,*"])
    monkeypatch.setenv("CONFORMANCE_LEVEL", "full")
    result = run(pytester, "", "level", "-s", module=module)
    result.stdout.fnmatch_lines(["*name='full', reads=100000, extras=500,*"])
    result = run(pytester, "", "level", "-s", "--conformance-level=quick", module=module)
    result.stdout.fnmatch_lines(["*name='quick'*"])
    monkeypatch.setenv("CONFORMANCE_LEVEL", "frantic")
    result = run(pytester, "", "level", module=module)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*CONFORMANCE_LEVEL is 'frantic'; *one of brief, full, quick*"])


def test_where_no_contract_is_used_the_plugin_is_silent_and_light(
    pytester: pytest.Pytester,
) -> None:
    module = (
        "import sys\n"
        "def test_light():\n"
        "    assert not {'agentic_kernel', 'agentic_kernel_engine'} & set(sys.modules)\n"
    )
    pytester.makeini(_STRICT)
    pytester.makepyfile(module)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*conformance*=*")


_RANDOM = "racing_hosts or any_sequence"


def test_random_tests_say_which_seeds_they_tried_and_where_to_go_on(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "pass", "any_sequence", "--conformance-seed=7")
    result.stdout.fnmatch_lines(
        [
            "AcmeStore test_any_sequence_*: from seed 7: 1 trial, * operations, 0 findings; "
            "next seed 8",
            "in all: 1 trial, * operations, 0 findings; go on with --conformance-seed=8",
        ]
    )


@pytest.mark.slow
@pytest.mark.torture
def test_by_the_clock_the_random_tests_share_the_time_and_no_count_ends_them(
    pytester: pytest.Pytester,
) -> None:
    """Where a trial takes longer than the time, there is one; the report has them all."""
    options = ("--conformance-minutes=0.01", "--conformance-seed=100")
    run(pytester, "pass", _RANDOM, *options, "--conformance-report=report")
    document = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
    trials = {each["test"]: each for each in document["trials"]}
    assert len(trials) == 2
    hosts = trials["test_what_racing_hosts_were_told_has_one_order"]
    assert hosts["adapter"] == "AcmeStore"
    assert 1 <= hosts["trials"] < 2_000
    assert hosts["operations"] >= 30 * hosts["trials"]
    assert (hosts["first_seed"], hosts["next_seed"]) == (100, 100 + hosts["trials"])
    table = (pytester.path / "report.md").read_text(encoding="utf-8")
    assert "- AcmeStore test_what_racing_hosts_were_told_has_one_order: from seed 100: " in table


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "ten"])
def test_a_number_of_minutes_that_is_none_is_refused(
    pytester: pytest.Pytester, minutes: str
) -> None:
    result = run(pytester, "pass", _ONE, f"--conformance-minutes={minutes}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--conformance-minutes*"])


_RACY = """
from agentic_kernel_engine import Conflict

class Racy(MemoryStore):
    async def commit(self, before, after, events=()):
        try:
            await super().commit(before, after, events)
        except Conflict:
            pass
"""


@pytest.mark.slow
def test_a_finding_names_its_seed_and_how_to_repeat_it(pytester: pytest.Pytester) -> None:
    module = _STORE.replace("MemoryStore()", "Racy()") + _RACY
    first = run(pytester, "pass", "racing_hosts", "--tb=short", module=module)
    first.stdout.fnmatch_lines(["*from seed 0: *, 1 finding; next seed *"])
    (again,) = [line for line in first.outlines if "to repeat it: pytest" in line]
    command = again.partition("to repeat it: pytest ")[2].split()
    assert command[0].endswith("::TestAcmeStore::test_what_racing_hosts_were_told_has_one_order")
    second = pytester.runpytest("-p", "no:cacheprovider", "--assert=plain", *command)
    seed = command[1].rpartition("=")[2]
    second.stdout.fnmatch_lines([f"*from seed {seed}: 1 trial, *, 1 finding;*"])


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_what_is_interrupted_says_what_was_done_and_goes_on_from_there(
    pytester: pytest.Pytester,
) -> None:
    """A trial that was under way is tried again."""
    module = (
        _STORE.replace("MemoryStore()", "Interrupted()")
        + """
import signal

class Interrupted(MemoryStore):
    async def insert(self, record, events=()):
        if record.task.id == "contest-33":
            signal.raise_signal(signal.SIGINT)
        await super().insert(record, events)
"""
    )
    pytester.makeini(_STRICT)
    pytester.makepyfile(module.replace("{body}", "pass"))
    options = ("-p", "no:cacheprovider", "-k", "racing_hosts", "--conformance-seed=30")
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        ["*: from seed 30: 3 trials, * operations, 0 findings; next seed 33"]
    )


@pytest.mark.slow
def test_news_of_a_long_test_are_shown_while_its_output_is_captured(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here every trial is news."""
    monkeypatch.setattr("agentic_kernel_conformance.trials._NEWS", 0.0)
    result = run(pytester, "pass", "racing_hosts", "--conformance-minutes=0.01")
    result.stdout.fnmatch_lines(
        [
            "AcmeStore *: from seed 0: 0 trials, *; next seed 0",
            "AcmeStore *: from seed 0: 1 trial, *; next seed 1",
            "*passed*",
        ]
    )


_LEAVING = """
from agentic_kernel_engine import StoreError
from agentic_kernel_conformance import StoreFeatures

class Leaving(MemoryStore):
    left = 0
    async def commit(self, *arguments):
        await asyncio.sleep(0)
        await super().commit(*arguments)
    async def leave(self, host):
        await super().leave(host)
        self.left += 1
        if self.left >= 40:  # again at each further try of the Host
            raise StoreError("the disk is gone")
"""


@pytest.mark.slow
def test_a_finding_among_histories_at_the_same_time_ends_them_all(
    pytester: pytest.Pytester,
) -> None:
    """No substrate of another history, however stubborn, keeps the event loop from closing."""
    module = "import asyncio\n" + _STORE.replace("MemoryStore()", "Leaving()") + _LEAVING
    at_once = "features = StoreFeatures(durable=True)"
    result = run(pytester, at_once, "racing_hosts", "--tb=short", module=module)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the disk is gone*"])


_LEAKING = '''
import asyncio
import pytest
import pytest_asyncio
from agentic_kernel_conformance import (
    RuntimeContract, RuntimeFeatures, ScriptedSubstrate, ScriptedWork
)
from agentic_kernel_engine import Host

class LeakedSlot(Host):
    """Takes a slot for every end from outside, and does not give it back."""

    slots = 1

    async def fail(self, task_id, failure):
        return await self.leak(super().fail(task_id, failure))

    async def complete(self, task_id, result):
        return await self.leak(super().complete(task_id, result))

    async def leak(self, end):
        if not self.slots:
            end.close()
            await asyncio.Event().wait()
        self.slots -= 1
        return await end

class TestAcmeHost(RuntimeContract):
    features = RuntimeFeatures(pauses=True, keeps_partial_output=True, refuses=True)
    patience = 0.5
    {body}

    @pytest.fixture
    def work(self):
        return ScriptedWork()

    @pytest_asyncio.fixture
    async def runtime(self, work):
        async with LeakedSlot(ScriptedSubstrate(work), interval=0.01) as host:
            yield host
'''
_DEAF = """
    @pytest_asyncio.fixture(autouse=True)
    async def deaf(self):
        yield
        await asyncio.Event().wait()
"""


def test_a_test_that_hangs_fails_with_its_rule_and_the_next_one_runs(
    pytester: pytest.Pytester,
) -> None:
    """A host that leaks a slot: what waits for it is named, and where it waits."""
    hangs, runs = "test_the_end_of_one_task_changes_no_other", "test_tasks_that_hang_delay_no_other"
    result = run(pytester, "pass", f"{hangs} or {runs}", "-p", "no:timeout", module=_LEAKING)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [f"rule clause1: {hangs} did not end within 5 s; it waits in Event.wait (locks.py, line *"]
    )
    result.stdout.fnmatch_lines(["*rule clause1 (Tasks do not affect each other) is broken*"])


@pytest.mark.usefixtures("interruptible")
@pytest.mark.torture
def test_fixtures_that_do_not_end_are_named_and_the_run_ends(pytester: pytest.Pytester) -> None:
    pytester.makeini(_STRICT)
    pytester.makepyfile(_LEAKING.replace("{body}", _DEAF))
    options = ("-p", "no:timeout", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess("-k", "hang_delay_no_other", *options, timeout=60)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        ["the end of the fixtures of *test_tasks_that_hang_delay_no_other did not end within 5 s*"]
    )


_KEEPING = """
import pytest
from agentic_kernel_conformance import StoreContract, StoreFeatures
from agentic_kernel_engine import MemoryStore

class Keeping(MemoryStore):
    async def reopened(self):
        again = Keeping()
        for record in await self.find():
            await again.insert(record.changed(inbox=()))
        return again

class TestAcmeStore(StoreContract):
    features = StoreFeatures(durable=True)
    {body}

    @pytest.fixture
    def store(self):
        return Keeping()

    @pytest.fixture
    def reopen(self):
        return Keeping.reopened
"""


def test_a_store_that_keeps_what_it_was_given_is_judged_by_what_it_wrote(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "pass", "every_field_of_a_commit_survives", module=_KEEPING)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*rule durable (durability) is broken*"])
