"""The verb ``run``: a new Task, here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..kinds import LOCAL, LOCAL_TOOLS, check_limits, check_runtime, check_taken
from ..parameters import (
    AcceptTools,
    Mcp,
    Model,
    Option,
    Runtime,
    Tools,
    Workspace,
    Yes,
    invocation,
    whole,
)
from ..text import label, utf8

if TYPE_CHECKING:
    from ..invocation import Invocation


def run(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The instructions; - reads them from stdin.")
    ],
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, callback=whole, help="End the answer after this many tokens."),
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="The system prompt: how the model must behave.")
    ] = None,
    summary: Annotated[
        str | None,
        typer.Option(help="A short title, shown in lists; without it, the beginning of the text."),
    ] = None,
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
    from agentic_kernel import Task
    from agentic_kernel_engine.texts import summary_of

    from ..grants import OPTIONS_KEY, grant_of, refuse_flags
    from ..origin import APP_KEY

    called = invocation(context)
    settings = called.settings
    told = utf8(sys.stdin.read() if text == "-" else text, "TEXT")
    for name, word in (("--id", task_id), ("--summary", summary), ("--system", system)):
        utf8(word or "", name)
    title = summary_of(told) if summary is None else summary
    app_kind = _app_kind(called, runtime)
    if app_kind is not None and called.app is not None:
        # Not by `grant_of`: it would ask for further flags, which are refused as well.
        flags = {
            "--model": model, "--option": option, "--tools": tools, "--workspace": workspace,
            "--yes": yes or None, "--mcp": mcp, "--accept-tools": accept_tools or None,
        }  # fmt: skip
        refuse_flags([name for name, there in flags.items() if there is not None], str(called.app))
        given = {"--api": api, "--system": system, "--max-tokens": max_tokens}
        wrong = " and ".join(name for name, value in given.items() if value is not None)
        if wrong:
            raise typer.BadParameter(f"{wrong}: {called.app} has its own; leave {wrong} out")
        own = Task.new(
            summary=title, instructions=told, runtime_kind=app_kind, id=task_id,
            metadata={**_before(called, session), APP_KEY: called.app.name},
        )  # fmt: skip
        return called.run_app(lambda here: here.launch(own, settings.limits, settings.file))
    if runtime is None:
        model = settings.model if model is None else model
        runtime = settings.runtime or LOCAL
    if called.app is None:
        check_runtime(runtime)
    else:
        check_runtime(runtime, called.app.name, called.app.kinds or ())
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
        summary=title,
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
    return called.run(
        {task.id: grant}, lambda here: here.launch(task, settings.limits, settings.file)
    )


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
    if app.kinds is None:
        raise typer.BadParameter(
            f"{app} serves every kind; name one with --runtime KIND, or give its Host its kinds, "
            "e.g. Host(..., runtime_kinds=['count'])"
        )
    have = ", ".join(map(label, sorted(app.kinds)))
    raise typer.BadParameter(f"{app} serves {have}; name one with --runtime")


def _before(called: Invocation, session: str | None) -> Mapping[str, Any]:
    """The metadata of a Task that continues the conversation of an earlier one."""
    if session is None:
        return {}
    from agentic_kernel_engine.loop import lineage

    from ..place import find_task

    earlier = called.controlled(lambda host: find_task(host, session))
    return lineage(earlier.task)


def _options(
    runtime: str, max_tokens: int | None, system: str | None, model: str | None, api: str | None
) -> Mapping[str, Any]:
    """The options of one Task, for its metadata; the file of a local model is not among them."""
    from ..grants import API_KEY, MODEL_KEY

    given = {
        f"{runtime}/max_tokens": max_tokens,
        f"{runtime}/system": system,
        MODEL_KEY: None if runtime == LOCAL else model,
        API_KEY: api,
    }
    return {key: value for key, value in given.items() if value is not None}
