"""The commands and their parameters. Each command returns its exit code.

A command that needs a part of the software that the others do not loads it itself, because most of
the time of a short command is spent on imports.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from agentic_kernel import CannotStart, IllegalTransition, Task, TaskStatus
from agentic_kernel_engine import Host, Record
from agentic_kernel_engine import rerun as again

from . import control, deciding, listing, rendering
from .application import Application, AppPlace
from .database import Database
from .grants import (
    API_KEY,
    LEFT,
    MODEL_KEY,
    OPTIONS_KEY,
    Grant,
    NotGranted,
    check_no_flags,
    grant_of,
)
from .guard_proxy import commands as guard
from .invocation import Invocation, place_of
from .kinds import LOCAL, LOCAL_TOOLS, check_limits, check_taken, serves
from .new import new
from .parameters import (
    LARGEST,
    AcceptTools,
    After,
    Granted,
    Last,
    Mcp,
    Model,
    Option,
    Runtime,
    TaskOrLast,
    Tools,
    Workspace,
    Yes,
    check_runtime,
    cursor,
    finite,
    invocation,
    wanted,
)
from .place import STATE_VARIABLE, find_task, history, orphaned, text_of
from .proposals import proposal
from .serving import keys, runner, serve
from .settings import Settings
from .stop import READER_GONE, Stop
from .text import label, line, seconds
from .user import check_mine

RUNNING: Final = ("run", "resume", "recover", "rerun", "approve", "deny", "answer")
"""The commands that run Tasks."""


class Commands(TyperGroup):
    """The group of the commands; a closed output ends a command with the exit code of SIGPIPE."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(READER_GONE) from None


app = typer.Typer(
    cls=Commands,
    help="Run Tasks on this machine; watch, pause, resume and kill them from any terminal.",
    epilog="--state, --app, --observer, --json and --debug may stand before or after the command.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)

app.add_typer(guard, name="guard")
app.add_typer(keys, name="keys")
app.add_typer(new, name="new")
app.command()(serve)
app.command()(runner)


@app.callback()
def options(
    context: typer.Context,
    *,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            envvar=STATE_VARIABLE,
            help="Where the Tasks are kept: a folder, or a URL, e.g. postgresql://…",
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:OBJECT",
            help="Your own Host, or a function that makes it; it runs the Tasks of its kinds.",
        ),
    ] = None,
    observer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An observer of the Tasks that the command runs, with its options: "
            "NAME?OPTION=VALUE. `doctor` lists those that are installed.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the log, and the traceback of an error.")
    ] = False,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    # --debug is declared here for the help; `app.main` reads it, because it reports the errors.
    if show_version:
        from importlib.metadata import version

        typer.echo(f"agentic-kernel {version('agentic-kernel-cli')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    settings = Settings.of(Path.cwd())
    if app is None and settings.app is not None:
        chosen: Application | None = Application(settings.app, named=False)
    else:
        chosen = Application(app) if app else None
    if observer and context.invoked_subcommand not in RUNNING:
        raise typer.BadParameter(f"--observer works only with {', '.join(RUNNING)}")
    given = state if state is not None else settings.state
    place = place_of(given)
    if chosen is not None and given is None:
        place = AppPlace(chosen, place)
    context.obj = Invocation(place, as_json, tuple(observer or ()), chosen, settings)


@app.command()
def run(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The instructions; - reads them from stdin.")
    ],
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST, help="End the answer after this many tokens."),
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="The system prompt: how the model must behave.")
    ] = None,
    summary: Annotated[str, typer.Option(help="A short title, shown in lists.")] = "",
    runtime: Runtime = None,
    model: Model = None,
    option: Option = None,
    api: Annotated[
        str | None,
        typer.Option(metavar="API", help="The API of openai: responses (default) or chat."),
    ] = None,
    task_id: Annotated[
        str | None, typer.Option("--id", help="The id of the Task; it must be new.")
    ] = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Continue the conversation of this Task, which must have ended."
        ),
    ] = None,
) -> int:
    """Run a new Task and stream its answer. Ctrl-C pauses it."""
    called = invocation(context)
    told = sys.stdin.read() if text == "-" else text
    app_kind = _app_kind(called, runtime)
    if app_kind is not None:
        check_no_flags(
            grant_of(None, model, tools, workspace, yes, mcp, accept_tools, option),
            str(called.app),
        )
        if api is not None or system is not None or max_tokens is not None:
            raise typer.BadParameter("--api, --system and --max-tokens do not work with an app")
        own = Task.new(
            summary=summary, instructions=told, runtime_kind=app_kind, id=task_id,
            metadata=_before(called, session),
        )  # fmt: skip
        return called.run_app(lambda here: here.launch(own, called.settings.limits))
    settings = called.settings
    if runtime is None:
        model = settings.model if model is None else model
        runtime = settings.runtime or LOCAL
    check_runtime(runtime)
    if runtime == LOCAL and api is not None:
        raise typer.BadParameter("--api works only with --runtime openai; remove it")
    grant = grant_of(runtime, model, tools, workspace, yes, mcp, accept_tools, option)
    box = grant.box
    check_taken(
        runtime,
        model=model is not None,
        tools=box is not None,
        system=system is not None,
        max_tokens=max_tokens is not None,
        session=session is not None,
    )
    check_limits(runtime, settings.limits, file=settings.file)
    task = Task.new(
        summary=summary,
        instructions=told,
        runtime_kind=LOCAL_TOOLS if runtime == LOCAL and box is not None else runtime,
        metadata={
            **_options(runtime, max_tokens, system, model, api),
            **({OPTIONS_KEY: dict(grant.options)} if grant.options else {}),
            **({} if box is None else box.metadata()),
            **_before(called, session),
        },
        id=task_id,
    )
    return called.run({task.id: grant}, lambda here: here.launch(task, settings.limits))


app.command("list")(listing.list_tasks)


@app.command()
def show(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    events: Annotated[
        bool, typer.Option("--events", help="Also show the events of the Task.")
    ] = False,
    after: After = None,
) -> int:
    """Show everything about one Task."""
    called, place = invocation(context), cursor(after)
    if place is not None and not events:
        raise typer.BadParameter("--after chooses events; add --events")

    async def showing(host: Host) -> None:
        record = await find_task(host, wanted(given, last))
        task = record.task
        happened = await history(host, task.id)
        said, gone = text_of(happened), await orphaned(host, record)
        console = rendering.Paper(highlight=False)
        if called.as_json:
            rendering.task_line(task, said=said, orphaned=gone)
        else:
            rendering.task_details(
                console,
                task,
                said=said,
                orphaned=gone,
                decisions=list(rendering.decision_lines(happened)),
                way_on=proposal(called.ways, task)
                if gone or task.status is TaskStatus.PAUSED
                else None,
            )
        for event in happened if events else ():
            if place is not None and event.id is not None and event.id <= place:
                continue
            if called.as_json:
                rendering.event_line(task.id, event)
            else:
                rendering.event_row(event)

    called.controlled(showing)
    return 0


@app.command()
def watch(
    context: typer.Context, given: TaskOrLast = None, last: Last = False, after: After = None
) -> int:
    """Follow a Task that runs elsewhere, until it ends or is paused."""
    called, place = invocation(context), cursor(after)

    async def watching(host: Host) -> int:
        stop = Stop()
        with stop.on_signals():
            task = (await find_task(host, wanted(given, last))).task
            return await control.watch(host, task, called.screen(stop), stop, place)

    return called.controlled(watching)


@app.command()
def pause(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    wait: Annotated[
        float,
        typer.Option(min=0, max=3600, help="Seconds to wait until it is paused.", callback=finite),
    ] = 5.0,
) -> int:
    """Pause a Task, wherever it runs."""
    called = invocation(context)

    async def pausing(host: Host) -> tuple[Task, str]:
        return await control.pause(host, (await find_task(host, wanted(given, last))).task.id, wait)

    called.report(*called.controlled(pausing))
    return 0


@app.command()
def resume(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    extra: Annotated[str | None, typer.Option(help="A further instruction for the Task.")] = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Resume a paused Task here, in the foreground, with what these flags grant.

    A Task of a kind that neither this command nor the app runs goes on in a Host that serves it.
    """
    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, yes, mcp, accept_tools, option),
    )
    record = called.controlled(lambda host: find_task(host, wanted(given, last)))
    if record.task.status is not TaskStatus.PAUSED:
        raise IllegalTransition(record.task.id, record.task.status, "resume")
    kind = record.task.runtime_kind
    if called.app is not None and called.app_serves(kind):
        check_no_flags(grant, str(called.app))
        return called.run_app(lambda here: here.resume(record, extra))
    if not serves(kind):
        check_no_flags(grant, f"a Host that serves {label(kind)}")
        called.report(*called.controlled(lambda host: control.resume(host, record, extra)))
        return 0
    grants = called.granted(record.task, grant)
    return called.run(grants, lambda here: here.resume(record, extra))


@app.command()
def kill(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also bury a Task that only a newer version can read."),
    ] = False,
) -> int:
    """End a Task for good, wherever it runs; the text so far is kept.

    A Task that cannot be read is buried: a cancelled Task takes its place.
    """
    called = invocation(context)
    called.report(
        *called.controlled(lambda host: control.kill(host, wanted(given, last), force=force))
    )
    return 0


for decision in (deciding.approve, deciding.deny, deciding.answer, deciding.retune):
    app.command()(decision)


@app.command()
def recover(
    context: typer.Context,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Only these Tasks; without an ID: all."),
    ] = None,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Run Tasks whose process died, if these flags grant what the Tasks ask for."""
    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, yes, mcp, accept_tools, option),
    )
    lease = called.place.lease

    async def finding(host: Host) -> list[Record]:
        if given:
            return [await control.abandoned(host, name, lease) for name in given]
        return await control.left_behind(host)

    found = called.controlled(finding)
    if not found:
        late = f" (a dead process may count as alive for {lease:g} s; try again)" if lease else ""
        _note(f"nothing to recover{late}")
        return 0
    grants: dict[str, Grant] = {}
    own: list[Task] = []
    for record in found:
        if called.app is not None and called.app_serves(record.task.runtime_kind):
            own.append(record.task)
            continue
        try:
            check_mine(record)
            grants |= called.granted(record.task, grant, named=bool(given))
        except CannotStart as left:
            _leave(called, left)
    codes = []
    if own:
        if called.app is not None and not grants:
            check_no_flags(grant, str(called.app))
        refused: list[CannotStart] = []
        codes.append(called.run_app(lambda here: here.take_up(own, refused)))
        for each in refused:
            _leave(called, each)
    if grants:
        taken = [record.task for record in found if record.task.id in grants]
        codes.append(called.run(grants, lambda here: here.take_up(taken)))
    return next((code for code in codes if code), 0) if codes else LEFT


@app.command()
def rerun(
    context: typer.Context,
    given: TaskOrLast = None,
    last: Last = False,
    runtime: Granted = LOCAL,
    model: Model = None,
    option: Option = None,
    tools: Tools = None,
    workspace: Workspace = None,
    yes: Yes = False,
    mcp: Mcp = None,
    accept_tools: AcceptTools = False,
) -> int:
    """Run the work of a Task again, as a new Task that names the old one."""
    called, grant = (
        invocation(context),
        grant_of(runtime, model, tools, workspace, yes, mcp, accept_tools, option),
    )
    record = called.controlled(lambda host: find_task(host, wanted(given, last)))
    task = again(record.task, "cli")
    if called.app is not None and called.app_serves(task.runtime_kind):
        check_no_flags(grant, str(called.app))
        return called.run_app(lambda here: here.launch(task))
    return called.run(called.granted(task, grant), lambda here: here.launch(task))


@app.command()
def prune(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option(help="Remove Tasks that ended longer ago than this: 90s, 12h, 30d, 2w.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for a confirmation.")
    ] = False,
) -> int:
    """Remove Tasks that ended long ago, with everything that is stored about them."""
    called = invocation(context)
    age = timedelta(seconds=seconds(older_than, "--older-than"))
    if not yes:
        where = label(str(called.place))
        question = f"Remove every Task in {where} that ended more than {older_than} ago?"
        if not sys.stdin.isatty():
            raise typer.BadParameter("there is no terminal to ask on; add --yes")
        if not typer.confirm(question, err=True):
            return 1
    count = called.controlled(lambda host: control.prune(host, age))
    if called.as_json:
        rendering.json_line("pruned", {"count": count})
    else:
        typer.echo(f"removed {count} Task{'' if count == 1 else 's'}")
    return 0


@app.command()
def migrate(context: typer.Context) -> int:
    """Migrate the schema of the database to this version; Tasks may run meanwhile."""
    called = invocation(context)
    before = after = None
    if isinstance(called.place, Database):
        from . import upkeep

        before, after = asyncio.run(upkeep.migrated(called.place))
    if called.as_json:
        rendering.json_line("migrated", {"from": before, "to": after})
    elif before is None:
        typer.echo("nothing to do: a folder needs no migration")
    elif before == after:
        typer.echo(f"nothing to do: the schema already has version {after}")
    else:
        typer.echo(f"migrated the schema from version {before} to version {after}")
    return 0


@app.command("doctor")
def examine(
    context: typer.Context,
    runtime: Runtime = None,
    model: Model = None,
) -> int:
    """Check that this machine can run Tasks, and say how to repair what fails."""
    from . import doctor

    called = invocation(context)
    if runtime is None:
        model = called.settings.model if model is None else model
        runtime = called.settings.runtime or ("" if called.app else LOCAL)
    found = asyncio.run(doctor.findings(called.place, runtime, model, called.app))
    for finding in found:
        if called.as_json:
            rendering.json_line("finding", asdict(finding))
        else:
            rendering.finding_line(rendering.Paper(highlight=False), **asdict(finding))
    return 0 if all(finding.ok for finding in found if finding.needed) else 1


def _app_kind(called: Invocation, runtime: str | None) -> str | None:
    """The kind of a new Task that the app runs; None if the app does not run it.

    Raises:
        BadParameter: The app serves several kinds, and none is named.
    """
    app = called.app
    if app is None:
        return None
    if runtime is not None:
        return runtime if called.app_serves(runtime) else None
    called.app_serves("")
    if app.kinds is not None and len(app.kinds) == 1:
        return next(iter(app.kinds))
    have = "every kind" if app.kinds is None else ", ".join(map(label, sorted(app.kinds)))
    raise typer.BadParameter(f"the app {label(app.name)} serves {have}; name one with --runtime")


def _before(called: Invocation, session: str | None) -> Mapping[str, Any]:
    """The metadata of a Task that continues the conversation of an earlier one."""
    if session is None:
        return {}
    from agentic_kernel_engine.loop import lineage

    earlier = called.controlled(lambda host: find_task(host, session))
    return lineage(earlier.task)


def _options(
    runtime: str, max_tokens: int | None, system: str | None, model: str | None, api: str | None
) -> Mapping[str, Any]:
    """The options of one Task, for its metadata; the file of a local model is not among them."""
    given = {
        f"{runtime}/max_tokens": max_tokens,
        f"{runtime}/system": system,
        MODEL_KEY: None if runtime == LOCAL else model,
        API_KEY: api,
    }
    return {key: value for key, value in given.items() if value is not None}


def _leave(called: Invocation, left: CannotStart) -> None:
    """Print that a Task is left as it is, and why."""
    if called.as_json:
        words = left.words if isinstance(left, NotGranted) else ()
        rendering.json_line(
            "left", {"task_id": left.task_id, "reason": left.reason, "grant": words}
        )
    else:
        _note(line(f"left: task {label(str(left.task_id))}: {left.reason}"))


def _note(text: str) -> None:
    typer.echo(text, err=True)
