"""Errors name the remedy in the words of the command; the doctor tells what was asked.

A test chooses among the packages that are really installed, by a folder with links to them.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import Complete, Dispatch, Mutation, Pause, Task, apply
from agentic_kernel_cli.app import _run, parted
from agentic_kernel_cli.kinds import offered as found_runtimes
from agentic_kernel_cli.naming import STATE_VARIABLE
from agentic_kernel_engine import Record
from agentic_kernel_file import FileStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ALWAYS = ("cli", "core", "engine", "file")
ASKS = {
    "kind": "approval",
    "requests": [
        {"digest": letter * 64, "action": {"type": "stop", "letter": letter}} for letter in "de"
    ],
}
QUESTION = {"kind": "question", "question": "Which?"}
NOT_UTF8 = b"acme\xff\xfe".decode(errors="surrogateescape")
APP = """
from agentic_kernel import CannotStart
from agentic_kernel_engine import Host

class Count:
    async def execute(self, job):
        return 7

def shop(store):
    return Host(Count(), store, runtime_kinds=["acme"], claims=False)

def own():
    return Host(Count(), runtime_kinds=["acme"], claims=False)

def refusing(store):
    raise CannotStart("the shop is closed", "it")

def every(store):
    return Host(Count(), store, claims=False)

def other(store):
    return Host(Count(), store, runtime_kinds=["other"], claims=False)
"""
Told = Callable[..., str]
Installed = Callable[..., Path]


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Told:
    """Runs a command in this process; returns the one line of its error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_shop", raising=False)
    (tmp_path / "my_shop.py").write_text(APP)

    def telling(*words: str, code: int = 2) -> str:
        ended = _run(*parted(words))
        out, err = capfd.readouterr()
        assert (ended, out) == (code, ""), (out, err)
        assert err.count("\n") == 1
        assert err.rstrip("\n").isprintable()
        return err.removeprefix("agentic-kernel: ").rstrip("\n")

    return telling


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Lets the command find these distributions of ours, and no others."""

    def choosing(*names: str) -> Path:
        site, every = tmp_path / "site", Path(sysconfig.get_path("purelib"))
        site.mkdir()
        ours = tuple(f"agentic_kernel_{name}-" for name in (*ALWAYS, *names))
        for each in every.iterdir():
            if each.name.startswith(ours) or not each.name.startswith("agentic_kernel_"):
                (site / each.name).symlink_to(each)
        kept = [each for each in sys.path if Path(each) != every]
        monkeypatch.setattr(sys, "path", [str(site), *kept])
        found_runtimes.cache_clear()
        return site

    yield choosing
    found_runtimes.cache_clear()


def offers(site: Path, package: str, name: str) -> None:
    """Install a package that offers this runtime."""
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[agentic_kernel.runtimes]\n{name} = {package}:ENTRY")


def keep(folder: Path, name: str, *then: Mutation, app: str = "") -> None:
    """Store a Task, which this app started."""
    task = Task.new(
        id=name, summary="", instructions="do it", runtime_kind="acme", at=NOW,
        metadata={"cli/app": app} if app else None,
    )  # fmt: skip
    for mutation in (Dispatch(), *then):
        task = apply(task, mutation, NOW)

    async def keeping() -> None:
        store = FileStore(folder / "state")
        await store.insert(Record(task))
        store.close()

    asyncio.run(keeping())


# What a person need not see


def test_show_leaves_out_what_is_empty_but_in_json(
    told: Told, capfd: pytest.CaptureFixture[str]
) -> None:
    keep(Path(), "it", Pause(notes={"a/none": None, "a/list": [], "a/zero": 0, "a/no": False}))
    assert _run([], ["show", "it"]) == 0
    shown = capfd.readouterr().out
    assert "a/none" not in shown
    assert "a/list" not in shown
    assert "a/zero: 0\n" in shown
    assert "a/no: false\n" in shown
    assert _run(["--json"], ["show", "it"]) == 0
    metadata = json.loads(capfd.readouterr().out)["metadata"]
    assert metadata["a/none"] is None
    assert metadata["a/list"] == []


def test_a_folder_of_the_settings_is_proposed_so_that_every_folder_can_paste_it(
    told: Told,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv(STATE_VARIABLE)
    (tmp_path / "agentic-kernel.toml").write_text('app = "my_shop:shop"\nstate = "state"\n')
    keep(Path(), "it", Pause())
    assert _run([], ["show", "it"]) == 0
    way_on = f"cd {tmp_path} && agentic-kernel --state {tmp_path / 'state'} resume it"
    assert f"go on with: {way_on}\n" in capfd.readouterr().out
    assert _run(["--json"], ["show", "it"]) == 0
    assert json.loads(capfd.readouterr().out)["go_on_with"] == way_on


# Names


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("new", "thing", "foo"), "; use runtime, store, provider, observer, recopy"),
        (("new", "stor", "foo"), "; did you mean store? Use runtime, store"),
        (("new", "\x1b[2J"), "; use runtime, store"),
        (("keys", "frob"), "; use make, list, revoke"),
        (("guard", "policy", "chekc"), "; did you mean check? Use "),
    ],
)
def test_a_wrong_command_below_a_verb_is_told_the_right_ones(
    told: Told, words: tuple[str, ...], remedy: str
) -> None:
    assert remedy in told(*words)


def test_a_runtime_that_is_none_is_told_the_nearest_and_those_that_are_installed(
    told: Told, installed: Installed
) -> None:
    site = installed("openai", "claude")
    assert told("run", "--runtime", "opnai", "x") == (
        "--runtime: 'opnai' is not a runtime that is installed here; did you mean openai? Use "
        "claude, openai"
    )
    assert told("resume", "--runtime", "q" * 100_000, "x").endswith("; use claude, openai")
    for each in site.iterdir():
        if "openai" in each.name or "claude" in each.name:
            each.unlink()
    found_runtimes.cache_clear()
    assert "use none, so install one first: pip install " in told("run", "--runtime", "acme", "x")


def test_the_kinds_of_the_app_are_named_with_the_runtimes(told: Told) -> None:
    app = ("--app", "my_shop:shop")
    refused = told(*app, "run", "--runtime", "acm", "x")
    assert "; did you mean acme? Use acme, which the app my_shop:shop serves; or " in refused
    assert ", openai" in refused
    keep(Path(), "it", Pause())
    assert "'acm' is not a runtime" in told("resume", "it", "--runtime", "acm")


def test_an_app_of_every_kind_is_told_the_lasting_remedy(told: Told) -> None:
    refused = told("--app", "my_shop:every", "run", "x")
    assert "give its Host its kinds, e.g. Host(..., runtime_kinds=['count'])" in refused


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--model", "m"), "--model"),
        (("--yes",), "--yes"),
        (("--accept-tools", "--workspace", "."), "--workspace and --accept-tools"),
        (("--model", "m", "--tools", "calculator"), "--model and --tools"),
        (("--system", "s", "--max-tokens", "3"), "--system and --max-tokens"),
    ],
)
def test_a_flag_that_does_not_work_with_an_app_is_named(
    told: Told, words: tuple[str, ...], given: str
) -> None:
    refused = told("--app", "my_shop:shop", "run", *words, "x")
    assert refused.startswith(f"{given}: the app my_shop:shop ")
    assert f"leave {given} out" in refused


# The words of the command


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "it"),
        ("resume", "--last"),
        ("retune", "it", "--max-cost", "1"),
        ("retune", "--last", "--max-cost", "1"),
    ],
)
def test_a_task_that_ended_is_told_what_can_follow_it(told: Told, words: tuple[str, ...]) -> None:
    keep(Path(), "it", Complete("done"))
    assert told(*words, code=1) == (
        "task 'it' has ended (success) and stays as it is; run a new Task, or go on with this "
        "conversation: run --session it TEXT"
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("show", "nobody"), 1, "no task 'nobody' is stored here; see the ids with list, or name "),
        (("--app", "my_shop:shop", "run", "--id", "runs", "x"), 1, "give another --id, or leave"),
        (("run", "--id", "", "x"), 2, "--id: must not be empty"),
        (("approve", "over"), 1, "does not wait for an approval: it has ended (success)"),
        (("show", "d-short"[:5]), 2, "'d-sho' is a part of an id, but has only 5 characters; give"),
        (("show", "short"), 2, "'short' is a part of an id, but has only 5 characters; give at"),
        (("show", "s-hor"), 1, "no task 's-hor' is stored here"),
        (("show",), 2, "give an ID, or --last for the newest Task (see agentic-kernel show --"),
    ],
)
def test_errors_are_in_the_words_of_the_command(
    told: Told, words: tuple[str, ...], code: int, message: str
) -> None:
    keep(Path(), "runs")
    keep(Path(), "over", Complete("done"))
    keep(Path(), "d-short")
    refused = told(*words, code=code)
    assert message in refused
    for word in ("Invalid value", "mutation", "dispatch", "which store is open", "Task.id"):
        assert word not in refused


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (("--app", "my_shop:refusing", "resume", "it"), "resume"),
        (("--app", "my_shop:refusing", "answer", "it", "yes"), "resume"),
        (("recover", "it"), "recover"),
    ],
)
def test_a_refusal_of_a_task_that_has_begun_does_not_speak_of_a_start(
    told: Told, words: tuple[str, ...], verb: str
) -> None:
    keep(Path(), "it", Pause(notes={"engine/waiting_for": {"kind": "question", "question": "?"}}))
    refused = told(*words, code=1)
    assert refused.startswith(f"cannot {verb} task 'it': ")


# A Task that no process runs, and one of another Host


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "left-alone"),
        ("resume", "--last"),
        ("approve", "left-alone", "dddddddd"),
        ("deny", "left-alone", "--reason", "no"),
        ("answer", "left-alone", "yes"),
    ],
)
def test_a_task_that_no_process_runs_is_told_how_to_recover_it(
    told: Told, words: tuple[str, ...]
) -> None:
    keep(Path(), "left-alone")
    refused = told(*words, code=1)
    assert refused.startswith("task 'left-alone' is running, but no process runs it; start a Host ")
    assert refused.endswith(" --app MODULE:OBJECT recover -- left-alone")
    named = told("--app", "my_shop:shop", *words, code=1)
    assert named.endswith(" --app my_shop:shop recover left-alone")


LEFT = "the app my_shop:shop; go to the folder whose settings name it, or add --app"


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (ASKS, ("approve", "it", "d" * 8)),
        (ASKS, ("approve", "it")),
        (ASKS, ("deny", "it", "d" * 8, "--reason", "no")),
        (ASKS, ("resume", "it")),
        (QUESTION, ("answer", "it", "this")),
        (QUESTION, ("resume", "it")),
        (None, ("resume", "it")),
        (None, ("rerun", "it")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("app", [(), ("--app", "my_shop:other")], ids=["no app", "other app"])
def test_a_paused_task_is_left_to_the_app_that_it_names(
    told: Told,
    capfd: pytest.CaptureFixture[str],
    note: Mapping[str, Any] | None,
    words: tuple[str, ...],
    app: tuple[str, ...],
) -> None:
    keep(
        Path(),
        "it",
        Pause(notes={} if note is None else {"engine/waiting_for": note}),
        app="my_shop:shop",
    )
    refused = told(*app, *words, code=5)
    assert refused.endswith(f"it goes on in {LEFT}")
    assert _run(*parted(["--json", *app, *words])) == 5
    assert json.loads(capfd.readouterr().out)["message"] == refused
    assert _run(*parted(["--json", *app, "show", "it"])) == 0
    [task] = capfd.readouterr().out.splitlines()
    shown = json.loads(task)
    assert (shown["status"], shown["go_on_with"], shown["goes_on_in"]) == ("paused", None, LEFT)
    assert _run(["--json"], ["list"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("app", [(), ("--app", "my_shop:other")], ids=["no app", "other app"])
def test_a_task_that_no_process_runs_is_left_to_the_app_that_it_names(
    told: Told, capfd: pytest.CaptureFixture[str], app: tuple[str, ...]
) -> None:
    keep(Path(), "it", app="my_shop:shop")
    for words in (("resume", "it"), ("approve", "it"), ("answer", "it", "yes")):
        refused = told(*app, *words, code=1)
        assert f"no process runs it; recover it with {LEFT}: agentic-kernel " in refused
        assert refused.endswith(" --app MODULE:OBJECT recover -- it")
    for verb in (("list",), ("show", "it")):
        assert _run(*parted([*app, *verb])) == 0
        assert f"no process runs it; recover it with {LEFT}" in capfd.readouterr().out
    for ids in (("it",), ()):
        left = f"left: task 'it': it goes on in {LEFT}"
        assert told(*app, "recover", *ids, code=5) == left


@pytest.mark.parametrize("named", [True, False], ids=["named", "of the settings"])
def test_an_app_whose_kinds_are_not_known_yet_is_proposed_on_a_condition(
    told: Told, capfd: pytest.CaptureFixture[str], named: bool
) -> None:
    keep(Path(), "it")
    app = ("--app", "my_shop:other") if named else ()
    if not named:
        Path("agentic-kernel.toml").write_text('app = "my_shop:other"\n')
    unsure = "if the app my_shop:other serves acme"
    assert f"; let it go on, {unsure}, with: " in told(*app, "resume", "it", code=1)
    for verb in (("list",), ("show", "it")):
        assert _run(*parted([*app, *verb])) == 0
        assert f"no process runs it; recover it, {unsure}" in capfd.readouterr().out
    assert "only a Host that serves 'acme' can run it" in told(*app, "recover", "it", code=5)


def test_list_and_show_name_the_same_remedy_for_a_task_that_no_process_runs(
    told: Told, capfd: pytest.CaptureFixture[str]
) -> None:
    keep(Path(), "it")
    taker = "only a Host that serves 'acme' can run it; start one, or name yours with --app"
    for app, remedy in (((), taker), (("--app", "my_shop:shop"), "recover it")):
        for verb in (("list",), ("show", "it")):
            assert _run(*parted([*app, *verb])) == 0
            assert f"no process runs it; {remedy}" in capfd.readouterr().out
    Path("agentic-kernel.toml").write_text('app = "my_shop:shop"\n')
    assert _run(*parted(["list"])) == 0
    assert "no process runs it; recover it" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("note", "need", "then"),
    [
        (ASKS, "an approval", f"approve it {'d' * 64} {'e' * 64}"),
        (QUESTION, "an answer", "answer it TEXT"),
    ],
)
def test_resume_hands_no_task_over_that_waits_for_a_decision(
    told: Told, capfd: pytest.CaptureFixture[str], note: Mapping[str, Any], need: str, then: str
) -> None:
    keep(Path(), "it", Pause(notes={"engine/waiting_for": note}))
    refused = told("resume", "it", code=1)
    assert f"waits for {need}, and resume gives none; go on with: " in refused
    assert refused.endswith(f" {then}")
    assert _run([], ["show", "it"]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[-2].endswith(f" {then}")
    assert shown[-1] == (
        "goes on in: a Host that serves acme; to run it here, add --app MODULE:OBJECT"
    )
    assert _run(["--json"], ["show", "it"]) == 0
    told_of = json.loads(capfd.readouterr().out)
    assert f"go on with: {told_of['go_on_with']}" == shown[-2]
    assert f"goes on in: {told_of['goes_on_in']}" == shown[-1]
    assert _run(*parted(["--app", "my_shop:shop", "show", "it"])) == 0
    assert capfd.readouterr().out.splitlines()[-1].endswith(f" --app my_shop:shop {then}")


def test_migrate_does_not_speak_for_the_store_of_an_app(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(STATE_VARIABLE)
    said = told("--app", "my_shop:own", "migrate")
    assert said.startswith("--app: my_shop:own has a store of its own, and its Host migrates it;")


def test_a_task_that_a_live_process_runs_is_not_resumed(told: Told) -> None:
    store = FileStore(Path("state"))

    async def begin() -> None:
        await store.join("alive")
        task = Task.new(id="runs", summary="", instructions="x", runtime_kind="acme", at=NOW)
        await store.insert(Record(apply(task, Dispatch(), NOW), owner="alive:1"))

    asyncio.run(begin())
    assert told("resume", "runs", code=1) == (
        "task 'runs' is running already; look at it with watch, or pause it first"
    )
    store.close()


@pytest.mark.parametrize(
    "words", [("run", "x"), ("list",), ("show", "it"), ("resume", "it"), ("pause", "it")]
)
def test_each_verb_refuses_a_place_beside_the_store_of_the_app(
    told: Told, words: tuple[str, ...]
) -> None:
    keep(Path(), "it", Pause())
    refused = told("--app", "my_shop:own", *words)
    assert refused.startswith("--app: my_shop:own has a store of its own, so it cannot use ")
    assert "leave --state out (and AGENTIC_KERNEL_STATE, and " in refused
    assert told("--app", "my_shop:own", "--state", "other", *words) == refused.replace(
        str(Path("state").absolute()), "other"
    )


def test_the_doctor_tells_of_a_place_beside_the_store_of_the_app(
    told: Told, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run(*parted(["--json", "--app", "my_shop:own", "doctor", "--runtime", "acme"])) == 1
    row = rows(capfd.readouterr().out)["app"]
    assert row["advice"].startswith("my_shop:own has a store of its own, so it cannot use ")


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_a_part_of_a_digest_that_is_too_short_says_how_long_it_must_be(
    told: Told, verb: str
) -> None:
    keep(Path(), "it", Pause(notes={"engine/waiting_for": ASKS}))
    reason = ("--reason", "no") if verb == "deny" else ()
    assert told(verb, "it", "ddddddd", *reason, code=1) == (
        "task 'it' takes at least 8 characters of a digest, and 'ddddddd' has 7; see the digests "
        "with show"
    )


# The parser


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("completion",), "give SHELL: bash, zsh, fish "),
        (("completion", "powershell"), "'SHELL': 'powershell' is not one of 'bash', 'zsh', "),
        (("list", "--status", "bogus"), "'--status': 'bogus' is not one of 'running', 'paused', "),
        (("list", "--limit", "x"), "'--limit': must be a whole number "),
        (("list", "--limit", "0"), "'--limit': must be 1 or more "),
        (("retune", "it", "--max-cost", "-1"), "'--max-cost': must be 0 or more "),
        (("retune", "it", "--max-cost", "x"), "'--max-cost': must be a number "),
        (("keys", "make", "--days", "1e9"), "'--days': must be 36500 or less "),
    ],
)
def test_a_value_that_the_parser_refuses_is_told_in_plain_words(
    told: Told, words: tuple[str, ...], said: str
) -> None:
    message = told(*words)
    assert said in message
    assert "error" not in message
    assert "Input" not in message


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("show", NOT_UTF8), "ID"),
        (("resume", "--", NOT_UTF8), "ID"),
        (("recover", NOT_UTF8), "ID"),
        (("list", "--after", NOT_UTF8), "ID"),
        (("run", "x", "--session", NOT_UTF8), "ID"),
        (("run", NOT_UTF8), "TEXT"),
        (("run", "x", "--id", NOT_UTF8), "--id"),
        (("run", "x", "--summary", NOT_UTF8), "--summary"),
        (("run", "x", "--system", NOT_UTF8), "--system"),
        (("resume", "it", "--extra", NOT_UTF8), "--extra"),
        (("answer", "asks", NOT_UTF8), "TEXT"),
        (("approve", "wants", "d" * 8, "--why", NOT_UTF8), "--why"),
        (("deny", "wants", "d" * 8, "--reason", NOT_UTF8), "--reason"),
    ],
    ids=lambda value: "-".join(value[:-1]) if isinstance(value, tuple) else None,
)
def test_a_word_that_is_not_utf8_is_told_by_the_name_that_the_command_line_has(
    told: Told, words: tuple[str, ...], name: str
) -> None:
    keep(Path(), "it", Pause())
    keep(Path(), "wants", Pause(notes={"engine/waiting_for": ASKS}))
    keep(Path(), "asks", Pause(notes={"engine/waiting_for": QUESTION}))
    assert told(*words) == (
        f"{name}: is 'acme\\udcff\\udcfe', which is not UTF-8 at character 5; give it in UTF-8"
    )


def test_a_file_url_with_two_slashes_needs_three(told: Told) -> None:
    assert told("--state", "file://x.db", "list").endswith(
        "a file: URL needs three slashes, like file:///srv/tasks"
    )


# --last


@pytest.mark.parametrize(
    ("words", "rest"), [(("approve",), "approved"), (("deny", "--reason", "no"), "denied")]
)
def test_approve_and_deny_take_the_newest_task_and_digests(
    told: Told, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], rest: str
) -> None:
    keep(Path(), "it", Pause(notes={"engine/waiting_for": ASKS}))
    assert _run([], [*words, "--last", "dddddddd", "eeeeeeee"]) == 0
    out = capfd.readouterr().out
    assert out == f"it: {rest}; it goes on in a Host that serves acme; start one if none runs\n"


def test_approve_without_a_digest_proposes_the_command_for_the_newest_task(
    told: Told, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    keep(Path(), "it", Pause(notes={"engine/waiting_for": ASKS}))
    assert _run([], ["approve", "--last"]) == 2
    assert f" approve it {'d' * 64} {'e' * 64}" in capfd.readouterr().err


def test_answer_takes_the_newest_task_and_one_text(
    told: Told, capfd: pytest.CaptureFixture[str]
) -> None:
    asks = {"kind": "question", "question": "Which?"}
    keep(Path(), "it", Pause(notes={"engine/waiting_for": asks}))
    for words in (("--last",), ("it",), ("--last", "it", "text"), ()):
        assert told("answer", *words).startswith("give an ID, or --last")
    assert _run([], ["answer", "--last", "The second."]) == 0
    assert capfd.readouterr().out.startswith("it: answered; ")


# The doctor


def rows(told_lines: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in map(json.loads, told_lines.splitlines())}


def test_the_doctor_tells_what_was_asked_and_the_rest_in_one_line(
    told: Told, installed: Installed, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    site = installed("openai", "otel")
    assert _run(*parted(["--json", "doctor"])) == 0  # It is not broken: it is not installed.
    found = rows(capfd.readouterr().out)
    assert not {"agentic-kernel-local", "xllamacpp", "model"} & set(found)
    assert found["agentic-kernel-openai"]["ok"]
    assert found["agentic-kernel-otel"]["ok"]
    missing = found["not installed"]
    every = "claude, copilot, gemini, local, ollama, guard, mcp, new, server, postgres"
    assert missing["detail"] == every
    assert "put its name for NAME: pip install " in missing["advice"]
    assert not missing["needed"]
    assert not {"agentic-kernel-claude", "agentic-kernel-guard"} & set(found)
    _run(*parted(["--json", "doctor", "--runtime", "openai"]))
    found = rows(capfd.readouterr().out)
    own = {"agentic-kernel-openai", "openai key", "openai server", "openai models"}
    base = {"python", *(f"agentic-kernel-{name}" for name in ALWAYS), "state", "disk"}
    base |= {"agentic-kernel-otel", "otel SDK", "not installed"}
    assert set(found) == base | own
    assert _run(*parted(["--json", "doctor", "--runtime", "claude"])) == 1
    assert set(rows(capfd.readouterr().out)) == {*base, "agentic-kernel-claude"}
    assert "did you mean openai?" in told("doctor", "--runtime", "opena")
    assert _run(*parted(["--json", "--app", "my_shop:shop", "doctor", "--runtime", "acme"])) == 0
    assert set(rows(capfd.readouterr().out)) == {*base, "app"}
    assert _run(*parted(["--json", "--app", "my_shop:shop", "doctor", "--runtime", "acm"])) == 1
    assert "did you mean acme?" in rows(capfd.readouterr().out)["runtime"]["advice"]
    offers(site, "one", "acme")
    offers(site, "two", "acme")
    found_runtimes.cache_clear()
    both = "one 1.0 and two 1.0 both offer 'acme'; uninstall all but one"
    assert _run(*parted(["--json", "doctor", "--runtime", "acme"])) == 1
    row = rows(capfd.readouterr().out)["runtime acme"]
    assert (row["ok"], row["needed"], row["advice"]) == (False, True, both)
    assert told("run", "--runtime", "acme", "x") == f"--runtime: 'acme' cannot be used: {both}"


def test_the_doctor_fails_for_what_is_asked_or_broken_and_for_nothing_else(
    told: Told, installed: Installed, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    site = installed("otel")

    def failed(*words: str) -> set[str]:
        code = _run(*parted(["--json", "doctor", *words]))
        found = rows(capfd.readouterr().out)
        wrong = {name for name, row in found.items() if row["needed"] and not row["ok"]}
        assert code == bool(wrong)
        return wrong

    assert failed() == set()
    assert failed("--runtime", "local") >= {"agentic-kernel-local"}
    assert failed("--observer", "lines") == {"observer lines"}
    assert failed("--observer", "otel") == {"observer otel"}  # It has no place to send to.
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    assert failed("--observer", "otel") == set()
    assert failed("--observer", "otel?a=b") == {"observer otel"}
    (tmp_path / "a file").touch()
    assert failed("--state", str(tmp_path / "a file")) == {"state"}
    offers(site, "one", "acme")
    found_runtimes.cache_clear()
    assert failed() == {"runtime acme"}  # Its module is not there.
    assert failed("--runtime", "local") >= {"agentic-kernel-local"}
