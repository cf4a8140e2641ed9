"""Tasks on the real model: run, interrupted, taken up again, in real processes."""

from __future__ import annotations

import asyncio
import shlex
import signal
from pathlib import Path

import pytest

from agentic_kernel import Task
from agentic_kernel_cli.agents import open_runtime
from agentic_kernel_cli.grants import Grant
from agentic_kernel_cli.place import Folder
from agentic_kernel_engine import InMemoryObserver

from .terminals import ANOTHER, SOME, STORY, Command, Terminals

pytestmark = pytest.mark.slow

STUBBORN = str(Path(__file__).with_name("stubborn.py"))


def start_story(terminals: Terminals, *words: str, name: str = "story") -> Command:
    """A Task with this id that is in the middle of its answer."""
    command = terminals.start("run", STORY, "--id", name, "--max-tokens", "3000", *words)
    command.until(out=SOME)
    return command


def test_run_says_its_answer_and_ends_with_0(terminals: Terminals) -> None:
    done = terminals.call("run", "Say hello.", "--max-tokens", "60", "--system", "Be brief.")
    listed = terminals.call("--json", "list").lines
    assert [task["status"] for task in listed] == ["success"]
    assert listed[0]["metadata"] == {
        "local/max_tokens": 60,
        "local/system": "Be brief.",
        "engine/stop_reason": "final",
    }
    assert done.out == listed[0]["result"].rstrip("\n") + "\n"
    assert listed[0]["id"] in done.err


@pytest.mark.torture
def test_instructions_may_come_from_stdin(terminals: Terminals) -> None:
    terminals.start("run", "-", "--max-tokens", "60", stdin="Say\nhello.").ended(0)
    assert terminals.call("--json", "list").lines[0]["instructions"] == "Say\nhello."


def test_json_lines_are_the_events_and_then_the_task(terminals: Terminals) -> None:
    lines = terminals.call("run", "Say hello.", "--max-tokens", "60", "--json").lines
    assert [line["kind"] for line in lines] == ["event"] * (len(lines) - 1) + ["task"]
    said = "".join(line["data"]["text"] for line in lines[:-1] if line["type"] == "run.delta")
    assert said == lines[-1]["result"]


def test_a_failure_ends_with_1_and_says_why(terminals: Terminals) -> None:
    failed = terminals.call("run", "word " * 5000, code=1)
    assert "local/context_length" in failed.err
    assert failed.out == ""


@pytest.mark.torture
def test_an_id_is_used_once(terminals: Terminals) -> None:
    terminals.call("run", "Say hello.", "--id", "mine", "--max-tokens", "60")
    refused = terminals.call("run", "Say hello.", "--id", "mine", code=1)
    assert refused.err.splitlines()[-1].startswith("agentic-kernel: task 'mine' is already stored")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.torture)],
)
def test_a_signal_pauses_the_task_and_says_how_to_go_on(
    terminals: Terminals, number: int, code: int
) -> None:
    command = start_story(terminals)
    command.process.send_signal(number)
    command.ended(code)
    kept = terminals.task("story")
    assert kept["status"] == "paused"
    assert kept["said"] + "\n" == command.out
    way_on = shlex.split(command.err.splitlines()[-1].partition("go on with: ")[2])
    assert way_on == ["agentic-kernel", "--state", str(terminals.state), "resume", "story"]
    going_on = terminals.program("-m", "agentic_kernel_cli", *way_on[1:])
    going_on.until(out=len(kept["said"]) + SOME)
    assert going_on.out.startswith(kept["said"])
    terminals.call("kill", "story")
    going_on.ended(4)


@pytest.mark.usefixtures("interruptible")
def test_a_second_signal_leaves_at_once_and_the_task_can_be_recovered(
    terminals: Terminals,
) -> None:
    command = terminals.program(STUBBORN, str(terminals.state), "it")
    command.until(out=len("said, and never committed"))
    command.process.send_signal(signal.SIGINT)
    command.until(err="pausing")
    command.process.send_signal(signal.SIGINT)
    command.ended(130)
    where = ["--state", str(terminals.state)]
    assert command.err.splitlines()[-1] == (
        "left at once; committed work is kept; go on with: "
        f"{shlex.join(['agentic-kernel', *where, 'recover', 'it'])}"
    )
    left = terminals.task("it")
    assert (left["status"], left["orphaned"], left["said"]) == ("running", True, "said, ")


def test_a_reader_that_leaves_pauses_the_task(terminals: Terminals) -> None:
    command = start_story(terminals)
    command.stop_reading()
    command.ended(141)
    assert "Traceback" not in command.err
    assert "Exception" not in command.err
    assert terminals.task("story")["status"] == "paused"


def test_paused_resumed_with_an_extra_crashed_recovered_and_killed(terminals: Terminals) -> None:
    told = any(_told_in_four_parts(terminals, name) for name in ("one", "two", "three", "four"))
    assert told, "the small model ended each answer early"


def _told_in_four_parts(terminals: Terminals, name: str) -> bool:
    """Pause, resume, crash, recover and kill a Task; False if the model ended its answer before."""
    running = start_story(terminals, name=name)
    assert terminals.call("pause", name).out == f"{name}: paused\n"
    running.ended(3)
    first = terminals.task(name)
    assert (first["status"], first["said"] + "\n") == ("paused", running.out)

    resumed = terminals.start("resume", name, "--extra", ANOTHER)
    if not resumed.came_to(len(first["said"]) + 3 * SOME):
        return False
    resumed.process.kill()
    resumed.ended(-signal.SIGKILL)
    second = terminals.task(name)
    assert (second["status"], second["orphaned"]) == ("running", True)
    assert second["supplements"] == [ANOTHER]
    # The model has heard more, so its answer begins anew, on the screen after what was there.
    assert second["said"]
    assert resumed.out.startswith(f"{first['said']}\n\n{second['said']}")

    recovered = terminals.start("recover")
    if not recovered.came_to(len(second["said"]) + 3 * SOME):
        return False
    killed = terminals.call("kill", name).out
    if "it had already ended" in killed:
        return False
    assert killed == f"{name}: killed\n"
    recovered.ended(4)
    third = terminals.task(name)
    assert third["status"] == "cancelled"
    # A crash loses no text that was durable (R20): the answer goes on from there.
    assert third["said"].startswith(second["said"])
    assert len(third["said"]) > len(second["said"])
    assert third["said"] == third["metadata"]["local/partial_output"]
    return True


@pytest.mark.torture
def test_rerun_is_a_new_task_that_names_the_old_one(terminals: Terminals) -> None:
    first = terminals.call("run", "Say hello.", "--id", "old", "--max-tokens", "60")
    again = terminals.call("rerun", "old")
    assert again.out == first.out
    new = next(task for task in terminals.call("--json", "list").lines if task["id"] != "old")
    assert new["metadata"]["cli/lineage_of"] == "old"
    assert new["metadata"]["local/max_tokens"] == 60


@pytest.mark.torture
async def test_run_leaves_other_tasks_alone_and_recover_takes_them_all(
    terminals: Terminals,
) -> None:
    granted = {name: Grant() for name in ("one", "two")}
    async with open_runtime(Folder(terminals.state), granted, InMemoryObserver()) as host:
        for name in ("one", "two"):
            await host.dispatch(
                Task.new(
                    summary="",
                    instructions="Name three colours.",
                    runtime_kind="local",
                    id=name,
                    metadata={"local/max_tokens": 600},
                )
            )
        await host.drain()
    await asyncio.to_thread(terminals.call, "run", "Say hello.", "--max-tokens", "60")
    left = [await asyncio.to_thread(terminals.task, name) for name in ("one", "two")]
    assert [(task["status"], task["orphaned"]) for task in left] == [("running", True)] * 2
    recovered = await asyncio.to_thread(terminals.call, "recover")
    for number, name in ((1, "one"), (2, "two")):
        lines = recovered.out.splitlines()
        mine = [line.removeprefix(f"[{number}] ") for line in lines if f"[{number}] " in line]
        done = await asyncio.to_thread(terminals.task, name)
        assert done["status"] == "success"
        assert "\n".join(mine) == done["result"].rstrip("\n")
    assert (await asyncio.to_thread(terminals.call, "recover")).err == "nothing to recover\n"


@pytest.mark.torture
def test_what_is_not_paused_is_not_resumed(terminals: Terminals) -> None:
    terminals.call("run", "Say hello.", "--id", "mine", "--max-tokens", "60")
    refused = terminals.call("resume", "mine", code=1)
    assert refused.err.startswith("agentic-kernel: task 'mine' has ended (success) ")


def test_a_model_that_is_none_is_refused_before_anything_is_stored(terminals: Terminals) -> None:
    refused = terminals.call("run", "text", "--model", __file__, code=1)
    assert "GGUF" in refused.err
    assert terminals.call("list").out == ""
