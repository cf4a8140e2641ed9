"""A Task goes on with the program that it was made for, although the command serves its kind."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentic_kernel import Dispatch, Task, apply
from agentic_kernel_cli.commands import app
from agentic_kernel_cli.kinds import offered
from agentic_kernel_cli.place import Folder
from agentic_kernel_cli.toolbox import NAMES, SHOWN, Toolbox
from agentic_kernel_engine import Record, Store
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_file import FileStore

from .terminals import Terminals, wait_until

NOW = datetime(2030, 1, 1, tzinfo=UTC)

OFFICE = """
import asyncio, sys
from pathlib import Path
from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, tool
from agentic_kernel_engine.loop import ALLOW, FinalAnswer, Loop, ToolCall, require_approval
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_file import FileStore

HERE = Path(__file__).parent

class AskFirst:
    async def authorize(self, action, context):
        return require_approval("it pays") if isinstance(action, ToolCall) else ALLOW

@tool(effect="write")
async def pay(euros: int) -> str:
    with (HERE / "paid").open("a") as paid:
        paid.write(f"{euros}\\n")
    if (HERE / "hang").exists():
        await asyncio.Event().wait()
    return "paid"

def host(store, policy):
    planner = ScriptedPlanner(ToolCall("pay", {"euros": 3}), FinalAnswer("It is paid."))
    parts = [policy] if policy else []
    return Host(Loop(planner, [pay], *parts), store, runtime_kinds=["local"], claims=False)

def office(store):
    return host(store, AskFirst())

def till(store):
    return host(store, None)

other = office

async def alone(folder):
    store = FileStore(folder)
    async with office(store) as here:
        task = Task.new(summary="", instructions="Pay.", runtime_kind="local", id="it")
        await here.dispatch(task)
        await here.wait(task.id, TaskStatus.PAUSED)
    store.close()

if __name__ == "__main__":
    asyncio.run(alone(sys.argv[1]))
"""


@pytest.fixture
def office(terminals: Terminals, tmp_path: Path) -> Terminals:
    """Terminals in a folder with an app that serves the kind ``local`` with a tool of its own."""
    terminals.cwd = tmp_path / "project"
    terminals.cwd.mkdir()
    (terminals.cwd / "office.py").write_text(OFFICE.replace("\\n", "\\n"))
    return terminals


def paid(office: Terminals) -> str:
    assert office.cwd is not None
    there = office.cwd / "paid"
    return there.read_text() if there.exists() else ""


def test_a_task_of_an_app_is_approved_only_where_the_app_is(office: Terminals) -> None:
    asked = office.call("--app", "office:office", "run", "--id", "it", "Pay.", code=3)
    assert "--app office:office approve it" in asked.err
    digest = asked.err.split()[-1]
    told = "the app office:office; go to the folder whose settings name it, or add --app"
    refused = office.call("approve", "it", digest, code=5)
    assert f"it goes on in {told}" in refused.err
    assert f"it goes on in {told}" in office.call("rerun", "it", code=5).err
    seen = office.call("show", "it")
    assert "go on with" not in seen.out
    assert "the app office:office; go to" in " ".join(seen.out.split())
    [task] = office.call("--json", "show", "it").lines
    assert (task["go_on_with"], task["goes_on_in"]) == (None, told)
    assert paid(office) == ""
    done = office.call("--app", "office:other", "approve", "it", digest)
    assert done.out == "It is paid.\n"
    assert paid(office) == "3\n"


def test_an_app_of_the_settings_does_not_go_on_with_the_task_of_another_app(
    office: Terminals,
) -> None:
    office.call("--app", "office:office", "run", "--id", "it", "Pay.", code=3)
    assert office.cwd is not None
    (office.cwd / "agentic-kernel.toml").write_text('app = "office:other"\n')
    [task] = office.call("--json", "show", "it").lines
    assert task["go_on_with"] is None
    digest = office.call("--app", "office:office", "show", "it").out.split("approve it ")[1].split()
    assert "the app office:office" in office.call("approve", "it", digest[0], code=5).err
    (office.cwd / "agentic-kernel.toml").write_text('app = "office:office"\n')
    [task] = office.call("--json", "show", "it").lines
    assert task["go_on_with"].startswith(f"cd {office.cwd} && agentic-kernel ")
    assert office.call("approve", "it", digest[0]).out == "It is paid.\n"


def test_a_bare_recover_leaves_a_task_that_an_app_began(office: Terminals) -> None:
    assert office.cwd is not None
    (office.cwd / "hang").touch()
    runs = office.start("--app", "office:till", "run", "--id", "it", "Pay.")
    wait_until(lambda: paid(office))
    runs.process.send_signal(signal.SIGKILL)
    runs.end()
    assert "recover it with the app office:till" in " ".join(office.call("list").out.split())
    assert "the app office:till" in office.call("recover", code=5).err
    assert office.task("it")["status"] == "running"
    done = office.call("--app", "office:till", "recover", "it")
    assert "unknown outcome: pay" in done.err
    assert paid(office) == "3\n"


def test_a_task_of_another_program_with_tools_of_its_own_is_left_to_it(
    office: Terminals,
) -> None:
    """Such a program writes nothing into the Task that names it; the history tells."""
    office.program("office.py", str(office.state)).ended(0)
    there = "the program that has the tool pay; start it, or name its app with --app MODULE:OBJECT"
    task = office.task("it")
    assert (task["go_on_with"], task["goes_on_in"]) == (None, there)
    watched = office.call("watch", "it", code=3).err
    assert watched.splitlines()[-1] == f"paused  goes on in {there}"
    digest = task["metadata"]["engine/waiting_for"]["requests"][0]["digest"]
    refused = office.call("approve", "it", digest, code=5)
    assert "it has the tool pay, which this command does not have" in refused.err
    assert "name its app with --app MODULE:OBJECT" in refused.err
    assert "it has the tool pay" in office.call("rerun", "it", code=5).err
    assert paid(office) == ""
    assert office.call("--app", "office:office", "approve", "it", digest).out == "It is paid.\n"
    again = office.call("--app", "office:office", "rerun", "it", code=3)
    new = again.err.split("--app office:office approve ")[1].split()[0]
    assert office.task(new)["metadata"]["cli/app"] == "office:office"


def test_an_app_of_the_settings_is_proposed_for_a_task_that_the_command_leaves(
    office: Terminals,
) -> None:
    office.program("office.py", str(office.state)).ended(0)
    assert office.cwd is not None
    (office.cwd / "agentic-kernel.toml").write_text('app = "office:office"\n')
    [task] = office.call("--json", "show", "it").lines
    assert task["go_on_with"].startswith(f"cd {office.cwd} && agentic-kernel ")
    digest = task["go_on_with"].split()[-1]
    assert office.call("approve", "it", digest).out == "It is paid.\n"


def test_the_command_knows_the_names_of_its_own_tools(tmp_path: Path) -> None:
    assert {tool.name for tool in Toolbox(NAMES, tmp_path).tools()} == SHOWN


def event(kind: str, **data: Any) -> bytes:
    return json.dumps({"type": kind, "at": 0, "data": data}).encode()


def plan(*tools: str) -> bytes:
    return event(
        vocabulary.PLAN_MADE, actions=[{"type": "tool_call", "tool": name} for name in tools]
    )


def observed(*errors: str) -> bytes:
    return event(vocabulary.STEP_OBSERVED, observations=[{"error": error} for error in errors])


def began(*tools: str) -> bytes:
    return event(vocabulary.RUN_STARTED, **({"tools": list(tools)} if tools else {}))


async def leave(
    state: Path, *names: str, events: Sequence[bytes] = (plan("pay"),), **fields: Any
) -> None:
    """Store Tasks that no process runs."""
    store = FileStore(state)
    for name in names:
        given = {"summary": "", "instructions": "Go", "runtime_kind": "local", **fields}
        task = Task.new(id=name, at=NOW, **given)
        await store.insert(Record(apply(task, Dispatch(), NOW)), events)
    store.close()


def called(state: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--state", str(state), *words])


MADE = {"metadata": {"cli/tools": ["calculator"]}, "runtime_kind": "local-tools"}


@pytest.mark.parametrize(
    ("events", "fields", "has"),
    [
        # The run has committed, and has called no tool yet.
        ([began("pay")], {}, "tool pay"),
        ([began("calculator", "pay")], {}, "tool pay"),
        ([began("calculator")], {}, None),
        ([began(), plan("pay"), observed("")], {}, "tool pay"),
        ([], {"agent_name": "acme/clerk"}, "Agent acme/clerk"),
        ([], {"agent_name": "acme/clerk", "metadata": {"cli/lineage_of": "older"}}, None),
        ([], {}, None),
        # An earlier version did not name the tools of a run.
        ([plan("pay")], {}, "tool pay"),
        ([plan("pay"), observed("policy_denied")], {}, "tool pay"),
        ([plan("pay"), observed("unknown_tool")], {}, None),
        # The model names a tool that the command did not give to it.
        ([plan("pay")], MADE, None),
        ([began("calculator"), plan("pay"), observed("policy_denied")], MADE, None),
        ([began("calculator"), plan("pay")], {}, None),
        # A program goes on with a copy of a Task of the command.
        ([began("calculator", "pay")], MADE, "tool pay"),
    ],
)
def test_a_task_is_left_only_to_the_program_that_it_was_made_for(
    tmp_path: Path, events: Sequence[bytes], fields: dict[str, Any], has: str | None
) -> None:
    program = f"the program that has the {has}; start it, or name its app with --app MODULE:OBJECT"
    asyncio.run(leave(tmp_path, "it", events=events, **fields))
    shown = json.loads(called(tmp_path, "--json", "show", "it").stdout)
    assert shown["goes_on_in"] == (None if has is None else program)
    listed = called(tmp_path, "list").stdout.split("\t")[5]
    remedy = "recover it" if has is None else f"recover it with {program}"
    assert listed == f"no process runs it; {remedy}"
    assert f"({listed})" in called(tmp_path, "show", "it").stdout
    resumed = str(called(tmp_path, "resume", "it").exception)
    if has is None:
        assert " recover it" in shown["go_on_with"]
        assert f"let it go on with: {shown['go_on_with']}" in resumed
    else:
        assert shown["go_on_with"] is None
        assert f"; {remedy}: agentic-kernel --state" in resumed
        left = called(tmp_path, "recover", "--tools", "calculator").stderr
        assert left.startswith("left: task 'it': it ")
        assert "name its app with --app MODULE:OBJECT" in left


def test_a_runtime_of_an_installed_package_may_have_tools_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command began this Task itself, so it goes on with it."""
    state, about = tmp_path / "state", tmp_path / "site" / "acme-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[agentic_kernel.runtimes]\nacme = acme:ENTRY\n")
    monkeypatch.syspath_prepend(about.parent)
    offered.cache_clear()
    try:
        asyncio.run(leave(state, "it", events=[began("own"), plan("own")], runtime_kind="acme"))
        shown = json.loads(called(state, "--json", "show", "it").stdout)
    finally:
        offered.cache_clear()
    assert shown["go_on_with"].endswith(" recover it --runtime acme")


def test_recover_opens_the_place_as_often_for_many_tasks_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to find them, and once to read their histories."""
    opened, really = [], Folder.opened

    @asynccontextmanager
    async def opening(self: Folder) -> AsyncIterator[Store]:
        opened.append(self)
        async with really(self) as store:
            yield store

    monkeypatch.setattr(Folder, "opened", opening)
    asyncio.run(leave(tmp_path, "one", "three", "two"))
    left = called(tmp_path, "recover").stderr
    told = [line.split(": ")[1] for line in left.splitlines()]
    assert told == ["task 'one'", "task 'three'", "task 'two'"]
    assert len(opened) == 2
