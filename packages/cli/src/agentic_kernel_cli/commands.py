"""The command's verbs and global options.

A short command spends most of its time on imports. So each verb has a module of its own, which is
imported when its verb is called, asked for help or completed; and a verb imports what it runs on
inside its function.
"""

from __future__ import annotations

import logging
from collections import UserDict
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .codes import READER_GONE
from .conversion import spare
from .naming import STATE_VARIABLE
from .text import label

VERBS: Final = {
    "run": "verbs.run:run",
    "list": "verbs.list:list_tasks",
    "show": "verbs.show:show",
    "watch": "verbs.watch:watch",
    "pause": "verbs.pause:pause",
    "resume": "verbs.resume:resume",
    "kill": "verbs.kill:kill",
    "approve": "verbs.approve:approve",
    "deny": "verbs.deny:deny",
    "answer": "verbs.answer:answer",
    "retune": "verbs.retune:retune",
    "recover": "verbs.recover:recover",
    "rerun": "verbs.rerun:rerun",
    "prune": "verbs.prune:prune",
    "migrate": "verbs.migrate:migrate",
    "doctor": "verbs.doctor:doctor",
    "completion": "verbs.completion:completion",
    "guard": "guard_proxy:commands",
    "keys": "verbs.keys:keys",
    "new": "new:new",
    "serve": "verbs.serve:serve",
    "runner": "verbs.runner:runner",
}
"""The verbs, in the order of the help: for each the module, and the function or group in it."""
RUNNING: Final = ("run", "resume", "recover", "rerun", "approve", "deny", "answer")
"""The verbs that run Tasks."""
_log = logging.getLogger(__name__)


class Verbs(UserDict[str, Any]):
    """The commands by their verbs; each is imported and built when it is asked for."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(VERBS))

    def __getitem__(self, verb: str) -> Any:
        if self.data[verb] is None:
            module, _, name = VERBS[verb].partition(":")
            found = getattr(import_module(f".{module}", __package__), name)
            if not isinstance(found, typer.Typer):
                one = typer.Typer(add_completion=False)
                one.command(verb)(found)
                found = one
            self.data[verb] = get_command(found)
            # Typer gives a group no name, and the help shows the name that a command has itself.
            self.data[verb].name = verb
            spare(self.data[verb])
        return self.data[verb]


class Commands(TyperGroup):
    """The group of the verbs; a closed output ends a verb with the exit code of SIGPIPE."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        spare(self)
        self.commands = Verbs()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(READER_GONE) from None


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    help="Run Tasks on this machine; watch, pause, resume and kill them from any terminal.",
    epilog="--state, --app, --observer, --json, --verbose and --debug may stand before or after "
    "the verb. `completion --help` says how your shell completes verbs, options, ids and files.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)


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
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Also tell the place of the Tasks, warnings, and an error's causes."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole log, and the traceback of an error.")
    ] = False,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    # --verbose and --debug are declared for the help; `app.main` reads them, because it
    # reports errors.
    if show_version:
        from importlib.metadata import version

        typer.echo(f"agentic-kernel {version('agentic-kernel-cli')}")
        raise typer.Exit
    verb = context.invoked_subcommand
    if verb is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    observing = (*RUNNING, "doctor")
    if observer and verb not in observing:
        raise typer.BadParameter(f"--observer works only with {', '.join(observing)}")
    from .invocation import Invocation

    context.obj = called = Invocation.of(state, app, observer or (), as_json=as_json)
    _log.info("the Tasks are in %s", label(str(called.place)))
