"""The person's own Host behind the same commands: ``--app``, and the settings of a project."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_cli.app import _run, parted
from agentic_kernel_cli.settings import Settings
from integration.peers.aimock import Aimock

from .terminals import Terminals, wait_until

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "app" / "my_agents.py"

CREW = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from agentic_kernel_engine import *
from agentic_kernel_engine.loop import ALLOW, AskUser, FinalAnswer, ToolCall, require_approval
from agentic_kernel_engine.seams import ScriptedPlanner

HERE = Path(__file__).parent

class AskFirst:
    async def authorize(self, action, context):
        return require_approval("it writes") if isinstance(action, ToolCall) else ALLOW

@tool(inline=True)
def note(text: str) -> str:
    with (HERE / "notes").open("a") as file:
        file.write(text + "\\n")
    return "noted"

def crew(store):
    script = ToolCall("note", {"text": "hello"}), AskUser("Which one?"), FinalAnswer("all done")
    return Host(Loop(ScriptedPlanner(*script), [note], AskFirst()), store, runtime_kinds=["crew"],
                claims=False)

class Steps:
    "Counts; beyond 2 only once the file `open` is there."
    async def execute(self, job):
        count = job.state or 0
        while count < 4:
            while count >= 2 and not (HERE / "open").exists() and not job.stopping:
                await asyncio.sleep(0.01)
            job.emit(Event("run.delta", {"text": f"{count} "}))
            count += 1
            await job.checkpoint(count)
        return {"text": f"{count} steps, {list(job.task.supplements)}"}

@tool(effect="write")
async def pay(eur: int) -> str:
    (HERE / "paid").touch()
    await asyncio.Event().wait()

def butler(store):
    script = ToolCall("note", {"text": "hello"}), FinalAnswer("noted it")
    cashier = Host(Loop(ScriptedPlanner(*script), [note], AskFirst()), store,
                   runtime_kinds=["cashier"])
    asks = cashier.as_tool(name="cashier", description="Writes.")
    script = ToolCall("cashier", {"instructions": "Note it."}), FinalAnswer("all done")
    return Host(Loop(ScriptedPlanner(*script), [asks]), store, runtime_kinds=["butler"],
                claims=False)

@tool(effect="read")
async def hang() -> str:
    (HERE / "hangs").touch()
    await asyncio.Event().wait()

def chief(store):
    clerk = Host(Loop(ScriptedPlanner(ToolCall("hang", {})), [hang]), store,
                 runtime_kinds=["clerk"], claims=False)
    asks = clerk.as_tool(name="clerk", description="Works.")
    script = ToolCall("clerk", {"instructions": "Work."}), FinalAnswer("all done")
    return Host(Loop(ScriptedPlanner(*script), [asks]), store, runtime_kinds=["chief"],
                claims=False)

def payer(store):
    script = ToolCall("pay", {"eur": 3}), FinalAnswer("all done")
    return Host(Loop(ScriptedPlanner(*script), [pay]), store, runtime_kinds=["payer"], claims=False)

async def steps(store):
    return Host(Steps(), store, runtime_kinds=["steps", "leaps"], claims=False)

@asynccontextmanager
async def entered(store):
    async with Host(Steps(), store, runtime_kinds=["steps"], claims=False) as host:
        (HERE / "entered").touch()
        yield host
    (HERE / "left").touch()

memory = Host(Steps(), runtime_kinds=["steps"])
plane = Host()
number = 7

def needy(store, model):
    return None

def failing():
    raise RuntimeError("no database \x1b[2J here")

def wrong():
    return 7

def routed(store):
    return Router({"steps": Host(Steps(), store, runtime_kinds=["steps"], claims=False)})

router = routed(MemoryStore())

class Guarded:
    async def execute(self, job):
        return job.principal.name

def guarded(store):
    return Host(Guarded(), store, runtime_kinds=["steps"], claims=False,
                acts_for=lambda name, tenant: None)
"""


@pytest.fixture
def crew(terminals: Terminals, tmp_path: Path) -> Terminals:
    """Terminals in a folder with the module ``crew``."""
    terminals.cwd = tmp_path / "project"
    terminals.cwd.mkdir()
    (terminals.cwd / "crew.py").write_text(CREW.replace("\\\\n", "\\n"))
    return terminals


def folder(terminals: Terminals) -> Path:
    assert terminals.cwd is not None
    return terminals.cwd


def proposed(err: str) -> list[str]:
    """The words of the proposed command, without its program and place."""
    return shlex.split(err.splitlines()[-1].partition("go on with: ")[2])[3:]


def test_an_own_agent_runs_is_approved_and_answered_by_the_same_commands(
    crew: Terminals,
) -> None:
    asked = crew.call("--app", "crew:crew", "run", "--id", "it", "Write it.", code=3)
    assert "waits for approval of " in asked.err
    words = proposed(asked.err)
    assert words[:4] == ["--app", "crew:crew", "approve", "it"]
    question = crew.call(*words, code=3)
    assert (folder(crew) / "notes").read_text() == "hello\n"
    answer = proposed(question.err)
    assert answer[:4] == ["--app", "crew:crew", "answer", "it"]
    done = crew.call(*[word.replace("TEXT", "The second.") for word in answer])
    assert done.out == "all done\n"
    [task] = crew.call("--json", "show", "it").lines
    assert (task["status"], task["runtime_kind"]) == ("success", "crew")
    # Three processes ran it, and between them it was paused while the next one started.
    assert f"  ran {task['ran_seconds']:.1f} s" in done.err
    ended, started = (datetime.fromisoformat(task[f"{at}_at"]) for at in ("ended", "started"))
    assert task["ran_seconds"] < (ended - started).total_seconds()
    assert task["summary"] == "Write it."
    assert (folder(crew) / "notes").read_text() == "hello\n"


def test_last_is_the_task_of_the_person_and_not_its_child(crew: Terminals) -> None:
    app = ("--app", "crew:butler")
    asked = crew.call(*app, "run", "--id", "it", "Note it.", code=3)
    assert crew.call("--json", "show", "--last").lines[0]["id"] == "it"
    *_, digest = proposed(asked.err)
    done = crew.call(*app, "approve", "--last", digest)
    assert done.out == "all done\n"
    assert (folder(crew) / "notes").read_text() == "hello\n"


def test_an_approved_child_goes_on_with_its_parent_by_the_command_that_is_told(
    crew: Terminals,
) -> None:
    app = ("--app", "crew:butler")
    crew.call(*app, "run", "--id", "it", "Note it.", code=3)
    child, parent = crew.call("--json", "list").lines
    assert (child["parent"], parent["id"]) == ("it", "it")
    [asks] = child["metadata"]["engine/waiting_for"]["requests"]
    approved = crew.call(*app, "approve", child["id"], asks["digest"])
    said, _, command = approved.out.rstrip("\n").partition("; let it go on with: ")
    assert said == f"{child['id']}: approved; it goes on with its parent"
    words = shlex.split(command)[3:]
    assert words == [*app, "recover", "it"]
    done = crew.call(*words[:-1])
    assert done.out == "all done\n"
    assert "left: " not in done.err


def test_its_text_streams_and_a_pause_a_resume_and_a_rerun_work(crew: Terminals) -> None:
    app = ("--app", "crew:steps")
    running = crew.start(*app, "run", "--runtime", "leaps", "--id", "it", "Go.")
    running.until(out=4)
    assert running.out == "0 1 "
    crew.call("pause", "it")
    running.ended(3)
    assert proposed(running.err) == [*app, "resume", "it"]
    (folder(crew) / "open").touch()
    resumed = crew.call(*app, "resume", "it", "--extra", "And back.")
    assert resumed.out.split() == ["0", "1", "2", "3"]
    [task] = crew.call("--json", "show", "it").lines
    assert task["result"] == {"text": "4 steps, ['And back.']"}
    again = crew.call(*app, "--json", "rerun", "it").lines[-1]
    assert (again["status"], again["runtime_kind"]) == ("success", "leaps")


@pytest.mark.torture
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_pauses_it(crew: Terminals) -> None:
    running = crew.start("--app", "crew:steps", "run", "--runtime", "steps", "--id", "it", "Go.")
    running.until(out=4)
    running.process.send_signal(signal.SIGINT)
    running.ended(130)
    assert crew.call("--json", "show", "it").lines[0]["status"] == "paused"


@pytest.mark.usefixtures("interruptible")
def test_a_second_ctrl_c_tells_the_whole_command_that_lets_the_task_go_on(
    crew: Terminals,
) -> None:
    running = crew.start("--app", "crew:payer", "run", "--id", "it", "Pay.")
    wait_until((folder(crew) / "paid").exists)
    running.process.send_signal(signal.SIGINT)
    running.until(err="press Ctrl-C again")
    running.process.send_signal(signal.SIGINT)
    running.ended(130)
    last = running.err.splitlines()[-1]
    words, _, way_on = last.partition("; go on with: ")
    assert words == "left at once; committed work is kept"
    where = ["--state", str(crew.state), "--app", "crew:payer"]
    assert shlex.split(way_on) == ["agentic-kernel", *where, "recover", "it"]
    assert crew.call("--json", "show", "it").lines[0]["orphaned"]
    assert crew.call(*where, "recover", "it").out == "all done\n"


@pytest.mark.torture
def test_what_a_killed_process_left_is_shown_and_recovered_by_the_app(crew: Terminals) -> None:
    running = crew.start("--app", "crew:steps", "run", "--runtime", "steps", "--id", "it", "Go.")
    running.until(out=4)
    running.process.kill()
    running.end()
    listed = crew.call("list").out
    assert "no process runs it; recover it with the app crew:steps; go to the folder" in listed
    left = crew.call("recover", code=5).err
    assert "left: task 'it': it goes on in the app crew:steps; go to the folder" in left
    app = "--app", "crew:steps"
    assert "no process runs it; recover it" in crew.call(*app, "list").out
    assert "recover it" in crew.call(*app, "show", "it").out
    watching = crew.start(*app, "watch", "it")
    watching.until(err="no process runs this Task now; let it go on with: agentic-kernel ")
    watching.until(err=" --app crew:steps recover it")
    watching.process.terminate()
    watching.ended(143)
    (folder(crew) / "open").touch()
    crew.call("--app", "crew:steps", "recover")
    assert crew.call("--json", "show", "it").lines[0]["status"] == "success"


@pytest.mark.torture
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.usefixtures("interruptible")
def test_a_parent_that_waits_for_a_child_without_a_host_says_who_has_to_be_running(
    crew: Terminals, form: Sequence[str]
) -> None:
    app = ("--app", "crew:chief")
    running = crew.start(*app, "run", "--id", "it", "Work.")
    wait_until((folder(crew) / "hangs").exists)
    running.process.kill()
    running.end()
    (child,) = (each for each in crew.call("--json", "list").lines if each["id"] != "it")
    waits = (
        f"it waits for its child {child['id']}, which no process runs; a Host that serves clerk "
        "has to be running, with claims=True\n"
    )
    recovering = crew.start(*form, *app, "recover", "it")
    recovering.until(err=waits)
    time.sleep(2.5)  # Longer than the time between two looks.
    recovering.process.send_signal(signal.SIGINT)
    recovering.ended(130)
    assert recovering.err.count("waits for its child") == 1


@pytest.mark.torture
def test_a_call_that_a_killed_process_began_is_of_unknown_outcome(crew: Terminals) -> None:
    running = crew.start("--app", "crew:payer", "run", "--id", "it", "Pay.")
    running.until(err="pay")
    wait_until((folder(crew) / "paid").exists)
    running.process.kill()
    running.end()
    step = 'unknown outcome: pay {"eur": 3}'
    recovered = crew.call("--app", "crew:payer", "recover")
    assert recovered.out == "all done\n"
    assert step in recovered.err
    assert step in crew.call("watch", "it").err
    assert step in crew.call("show", "it").out.splitlines()
    [unknown] = crew.call("--json", "show", "it").lines[0]["unknown_outcomes"]
    assert unknown["data"]["arguments"] == {"eur": 3}


def test_without_the_app_a_task_is_handed_over_and_the_command_says_to_whom(
    crew: Terminals,
) -> None:
    """A Task of a program of the person's own, which names no app."""
    crew.program("-c", PROGRAM, str(crew.state)).ended(0)
    [task] = crew.call("--json", "show", "it").lines
    approve = shlex.split(task["go_on_with"])[3:]
    refused = crew.call(*approve, "--tools", "calculator", code=2)
    assert "a Host that serves crew runs this Task" in refused.err
    told = crew.call(*approve).out
    assert told == "it: approved; it goes on in a Host that serves crew; start one if none runs\n"
    assert not (folder(crew) / "notes").exists()
    refused = crew.call("--app", "crew:crew", "recover", "it", "--tools", "calculator", code=2)
    assert "it has its own model, tools and consent" in refused.err
    crew.call("--app", "crew:crew", "recover", "it", code=3)
    assert (folder(crew) / "notes").read_text() == "hello\n"


PROGRAM = """
import asyncio, sys
from agentic_kernel import Task, TaskStatus
from agentic_kernel_file import FileStore
from crew import crew

async def main():
    store = FileStore(sys.argv[1])
    async with crew(store) as host:
        task = Task.new(summary="", instructions="Write it.", runtime_kind="crew", id="it")
        await host.dispatch(task)
        await host.wait(task.id, TaskStatus.PAUSED)
    store.close()

asyncio.run(main())
"""


Refuse = Callable[..., None]


@pytest.fixture
def refuse(
    crew: Terminals, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Refuse:
    """Runs a command in this process, which must end with this code and one line on stderr."""

    def refusing(words: Sequence[str], code: int, told: str) -> None:
        monkeypatch.chdir(folder(crew))
        monkeypatch.setenv("XDG_DATA_HOME", str(crew.state))
        monkeypatch.delitem(sys.modules, "crew", raising=False)
        monkeypatch.setattr(sys, "path", [*sys.path])
        assert _run(*parted(words)) == code
        out, err = capfd.readouterr()
        assert out == ""
        assert told in err
        assert err.count("\n") == 1
        assert err.rstrip("\n").isprintable()

    return refusing


@pytest.mark.parametrize(
    ("app", "words", "told"),
    [
        ("crew:crew", ["--tools", "calculator"], "it has its own model, tools and consent"),
        ("crew:crew", ["--model", "m"], "it has its own model, tools and consent"),
        ("crew:crew", ["--system", "s"], "leave --system out"),
        ("crew:steps", [], "serves leaps, steps; name one with --runtime"),
        ("crew:steps", ["--runtime", "abacus"], "'abacus' is not a runtime"),
    ],
)
def test_the_flags_of_the_commands_own_runtimes_do_not_work_with_an_app(
    refuse: Refuse, app: str, words: list[str], told: str
) -> None:
    refuse(["--state", "tasks", "--app", app, "run", *words, "x"], 2, told)


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("crew", 2, "use MODULE:OBJECT"),
        ("crew:", 2, "use MODULE:OBJECT"),
        ("nowhere:make", 2, "No module named 'nowhere'; go to the folder that has it, or install"),
        ("crew:nothing", 2, "the module was imported, but has no nothing"),
        ("crew.py:make", 2, "with a file; use the module, crew:make"),
        ("crew:number", 2, "of the type int; it must be a Host"),
        ("crew:wrong", 2, "of the type int; it must be a Host"),
        ("crew:plane", 2, "is a Host without a substrate"),
        ("crew:needy", 2, "needs the arguments model"),
        ("crew:failing", 1, "cannot be made: RuntimeError: no database"),
        ("crew:memory", 2, "has a store of its own"),
        ("crew:Steps", 2, "is a class, Steps, and no Host; name a function that makes one, e.g. "),
        ("crew:router", 2, "is a Runtime, whose store the command cannot see"),
    ],
)
def test_what_is_no_app_is_one_line_that_says_why(
    refuse: Refuse, name: str, code: int, told: str
) -> None:
    place = [] if name in ("crew:wrong", "crew:plane", "crew:failing") else ["--state", "tasks"]
    refuse([*place, "--app", name, "run", "x"], code, told)


@pytest.mark.torture
@pytest.mark.usefixtures("interruptible")
def test_a_runtime_that_is_no_host_runs_pauses_and_resumes(crew: Terminals) -> None:
    app = ("--app", "crew:routed")
    running = crew.start(*app, "run", "--runtime", "steps", "--id", "it", "Go.")
    running.until(out=4)
    running.process.send_signal(signal.SIGINT)
    running.ended(130)
    (folder(crew) / "open").touch()
    resumed = crew.call(*app, "resume", "it")
    assert resumed.out.split() == ["0", "1", "2", "3"]
    assert crew.call("--json", "show", "it").lines[0]["status"] == "success"


@pytest.mark.torture
def test_a_context_manager_is_entered_and_left(crew: Terminals) -> None:
    (folder(crew) / "open").touch()
    done = crew.call("--app", "crew:entered", "run", "Go.")
    assert done.out.split() == ["0", "1", "2", "3"]
    assert (folder(crew) / "entered").exists()
    assert (folder(crew) / "left").exists()


@pytest.mark.torture
def test_a_host_with_a_store_of_its_own_needs_no_state(crew: Terminals) -> None:
    crew.chosen = False
    crew.env["XDG_DATA_HOME"] = str(crew.state)
    (folder(crew) / "open").touch()
    done = crew.call("--app", "crew:memory", "--json", "run", "Go.").lines[-1]
    assert done["status"] == "success"
    assert not crew.state.exists()


@pytest.mark.torture
def test_an_app_decides_itself_for_whom_it_acts(crew: Terminals) -> None:
    refused = crew.call("--app", "crew:guarded", "run", "Go.", code=1)
    assert "names no principal" in refused.err
    crew.start("--app", "crew:steps", "run", "--runtime", "steps", "--id", "it", "x").until(out=4)
    crew.call("pause", "it")
    for command in crew.started:
        command.end()
    told = crew.call("--app", "crew:guarded", "resume", "it")
    assert "the app did not take it" in told.err
    assert crew.call("--json", "show", "it").lines[0]["orphaned"]
    refused = crew.call("--app", "crew:guarded", "recover", code=1)
    assert "it" in refused.err
    assert crew.call("--json", "show", "it").lines[0]["orphaned"]


@pytest.mark.torture
def test_the_doctor_examines_the_app(crew: Terminals) -> None:
    looked = crew.call("--app", "crew:steps", "--json", "doctor").lines
    assert {line["name"]: line["detail"] for line in looked}[
        "app"
    ] == "crew:steps serves leaps, steps"
    crew.chosen = False
    crew.env["XDG_DATA_HOME"] = str(crew.state)
    looked = crew.call("--app", "crew:failing", "--json", "doctor", code=1).lines
    assert "RuntimeError" in {line["name"]: line["advice"] for line in looked}["app"]


def test_the_app_of_the_page_runs_as_the_page_says(crew: Terminals, aimock: Aimock) -> None:
    shutil.copy(EXAMPLE, folder(crew))
    crew.env |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{aimock.url}/v1"}
    call = {"name": "umbrellas", "arguments": '{"city": "Bonn"}'}
    aimock.script({"toolCalls": [call]}, {"content": "Yes, twelve."})
    app = ("--app", "my_agents:shop")
    assert crew.call(*app, "run", "Do we have umbrellas in Bonn?").out == "Yes, twelve.\n"
    assert "nothing to recover" in crew.call(*app, "recover").err


# Settings


@pytest.mark.torture
def test_the_settings_name_the_app_and_the_state(crew: Terminals, tmp_path: Path) -> None:
    crew.chosen = False
    (folder(crew) / "pyproject.toml").write_text(
        '[tool.agentic-kernel]\napp = "crew:crew"\nstate = "tasks"\n'
    )
    asked = crew.call("run", "--id", "it", "Write it.", code=3)
    assert (folder(crew) / "tasks").is_dir()
    line = asked.err.splitlines()[-1].partition("go on with: ")[2]
    own = f"cd {folder(crew)} && agentic-kernel --state {folder(crew) / 'tasks'} approve it "
    assert line.startswith(own)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    pasted = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert pasted.returncode == 3
    assert "Which one?" in pasted.stderr
    assert (folder(crew) / "notes").read_text() == "hello\n"
    assert [task["id"] for task in crew.call("--json", "list").lines] == ["it"]


def test_verbs_that_run_nothing_do_not_load_an_app_of_the_settings(crew: Terminals) -> None:
    crew.chosen = False
    (folder(crew) / "agentic-kernel.toml").write_text('app = "trap:make"\nstate = "tasks"\n')
    (folder(crew) / "trap.py").write_text("open('sprung', 'w')\nmake = None\n")
    crew.call("list")
    crew.call("show", "nobody1", code=1)
    crew.call("kill", "nobody1", code=1)
    assert not (folder(crew) / "sprung").exists()
    crew.call("run", "x", code=2)
    assert (folder(crew) / "sprung").exists()


def test_a_limit_that_the_host_refuses_is_told_with_its_file(crew: Terminals) -> None:
    crew.chosen = False
    settings = folder(crew) / "agentic-kernel.toml"
    settings.write_text('app = "crew:steps"\nstate = "tasks"\n[limits]\nmax_cost = 1\n')
    refused = crew.call("run", "--runtime", "steps", "x", code=1).err
    assert "does not keep the limit max_cost" in refused
    assert refused.endswith("(limits of agentic-kernel.toml)\n")


@pytest.mark.torture
def test_limits_of_the_settings_bind_new_tasks_and_are_never_ignored(crew: Terminals) -> None:
    crew.chosen = False
    settings = folder(crew) / "agentic-kernel.toml"
    settings.write_text('app = "crew:crew"\nstate = "tasks"\n[limits]\nmax_tool_calls = 0\n')
    events = crew.call("--json", "run", "Write it.", code=3).lines
    (begun,) = [line["data"] for line in events if line.get("type") == "run.started"]
    assert begun["limits"] == {"max_tool_calls": 0}
    settings.write_text('app = "crew:steps"\nstate = "tasks"\n[limits]\nmax_tool_calls = 0\n')
    assert "limit" in crew.call("run", "--runtime", "steps", "x", code=1).err
    settings.write_text('state = "tasks"\nruntime = "copilot"\n[limits]\nmax_reflections = 1\n')
    refused = crew.call("run", "x", code=2)
    assert "limits.max_reflections is not kept by the runtime copilot" in refused.err


@pytest.mark.torture
def test_a_runtime_and_a_model_of_the_settings_are_for_new_tasks_and_grant_nothing(
    crew: Terminals,
) -> None:
    crew.chosen = False
    crew.env |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    settings = folder(crew) / "agentic-kernel.toml"
    settings.write_text('runtime = "openai"\nmodel = "m"\nstate = "tasks"\n')
    crew.call("run", "--id", "it", "x", code=1)
    [task] = crew.call("--json", "show", "it").lines
    assert (task["runtime_kind"], task["metadata"]["cli/model"]) == ("openai", "m")
    refused = crew.call("rerun", "it", code=5)
    assert "add: --runtime openai --model m" in refused.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("app = 7", "app must be a text"),
        ("app = ''", "app must be a text"),
        ("tools = 'write'", "'tools' is no setting; use app, runtime, model, state, limits"),
        ("yes = true", "'yes' is no setting"),
        ("limits = 3", "limits must be a table"),
        ("[limits]\nmax_fun = 3", "'max_fun' is no limit; use max_iterations"),
        ("[limits]\nmax_cost = -1", "limits.max_cost must be a number"),
        ("[limits]\nmax_cost = nan", "limits.max_cost must be a number"),
        ("[limits]\nmax_cost = true", "limits.max_cost must be a number"),
        ("[limits]\nmax_cost = inf", "limits.max_cost is inf; use a number from 0 to 1,000,"),
        ("[limits]\nmax_depth = 1.5", "limits.max_depth is 1.5; use a whole number from 0 to"),
        ("app = ", "is no TOML"),
        ("\udcff", "is no TOML"),
        ("x = " + "[" * 100_000, "is no TOML"),
        ("#" * (1 << 20), "has more than 1,048,576 bytes"),
    ],
)
def test_settings_that_are_not_understood_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "agentic-kernel.toml").write_bytes(text.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(InvalidValue) as refused:
        Settings.of(tmp_path)
    assert refused.value.path == "agentic-kernel.toml"
    assert told in refused.value.reason


def test_one_file_has_the_settings(tmp_path: Path) -> None:
    assert Settings.of(tmp_path) == Settings()
    shared = tmp_path / "pyproject.toml"
    shared.write_text("[tool.other]\nx = 1\n")
    assert Settings.of(tmp_path) == Settings()
    shared.write_text("tool = 'agentic-kernel'\n")
    assert Settings.of(tmp_path) == Settings()
    shared.write_text("[tool]\nagentic-kernel = 3\n")
    with pytest.raises(InvalidValue, match="make it a table"):
        Settings.of(tmp_path)
    shared.write_text("[tool.agentic-kernel]\nmodel = 'shared'\n")
    assert Settings.of(tmp_path).model == "shared"
    (tmp_path / "agentic-kernel.toml").write_text("runtime = 'openai'\n")
    assert Settings.of(tmp_path) == Settings("agentic-kernel.toml", runtime="openai")


def test_a_file_that_every_user_may_write_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "agentic-kernel.toml"
    own.write_text("app = 'crew:make'\n")
    own.chmod(0o666)
    with pytest.raises(InvalidValue, match="every user may write it"):
        Settings.of(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "agentic-kernel.toml"
    own.write_text("app = 'crew:make'\n")
    os.chown(own, 12345, -1)
    with pytest.raises(InvalidValue, match="belongs to another user"):
        Settings.of(tmp_path)
