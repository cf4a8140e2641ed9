"""The commands about the server: it is served, tools are served to it, and its keys are kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agentic_kernel import CannotStart, InvalidValue

from . import rendering
from .kinds import install
from .text import label

if TYPE_CHECKING:
    from agentic_kernel_engine.seams import ToolRegistry

KEY_VARIABLE: Final = "AGENTIC_KERNEL_API_KEY"
"""The API key of a runner. A key on the command line would be seen by every user of the machine."""

keys = typer.Typer(help="Make, list and revoke the API keys of a server.", no_args_is_help=True)
KeyPath = Annotated[
    Path, typer.Option("--keys", metavar="FILE", help="The key file of the server.")
]


def serve(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8080",
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A rule file, or a folder of them; without one, every tool is denied.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="The API keys; needed beyond this machine."),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Processes behind the port.")] = 1,
    notice: Annotated[
        float,
        typer.Option(
            min=0, max=600, help="Seconds to go on serving after a stop, while not ready."
        ),
    ] = 0.0,
    grace: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds for runs to reach a safe point.")
    ] = 20.0,
    agent_timeout: Annotated[
        float, typer.Option(min=1, max=3_600, help="Seconds in which an agent may come back.")
    ] = 30.0,
    execution_timeout: Annotated[
        float, typer.Option(min=1, max=31_536_000, help="The longest execution, in seconds.")
    ] = 3_600.0,
    step_timeout: Annotated[
        float, typer.Option(min=1, max=31_536_000, help="The longest step, in seconds.")
    ] = 300.0,
    retention: Annotated[
        float, typer.Option(min=0.01, max=87_600, help="Hours that an ended execution is kept.")
    ] = 168.0,
    safe_to_repeat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOOL",
            help="A tool, * works, that may run again if its runner vanished; give it again.",
        ),
    ] = None,
    max_streams: Annotated[
        int, typer.Option(min=1, help="Open streams of a tenant, in each process.")
    ] = 2_500,
    max_requests: Annotated[
        float, typer.Option(min=0.1, help="Requests of a tenant per second, in each process.")
    ] = 2_000.0,
    max_executions: Annotated[
        int, typer.Option(min=1, max=500_000, help="Unfinished executions of a tenant.")
    ] = 10_000,
    max_body: Annotated[
        int, typer.Option(min=1_024, max=8_388_608, help="The largest body, in bytes.")
    ] = 4_194_304,
) -> int:
    """Serve executions, agents and runners over HTTP, until SIGTERM or Ctrl-C.

    Give the server a place of its own by --state: it removes every Task there that ended longer
    ago than --retention. SIGHUP reloads the policy; changed keys are seen at once. The exit code is
    0 after a stop.
    """
    serving, server = installed("agentic_kernel_server.serving"), installed()
    security = installed("agentic_kernel_server.security")
    options = serving.Options(
        listen=listen,
        policy=policy,
        keys=key_file,
        processes=processes,
        notice=notice,
        grace=grace,
        place=str(context.obj.place),
        level="debug" if context.find_root().params.get("debug") else "info",
        settings=server.Settings(
            agent_timeout=agent_timeout,
            execution_timeout=execution_timeout,
            step_timeout=step_timeout,
            retention=retention * 3_600,
            safe_to_repeat=tuple(safe_to_repeat or ()),
        ),
        most=security.Most(
            streams=max_streams,
            requests=max_requests,
            burst=max(1, round(2 * max_requests)),
            executions=max_executions,
        ),
        sizes=security.Sizes(body=max_body),
    )
    code: int = serving.serve(options, context.obj.place.opened)
    return code


def runner(
    context: typer.Context,
    tools: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME", help="The tools: a registry, a tool, or a list of them."
        ),
    ],
    server: Annotated[str, typer.Option(metavar="URL", help="The server, without /v0.")],
    runner_id: Annotated[
        str,
        typer.Option("--id", metavar="ID", help="The name of the runner; by default the module."),
    ] = "",
) -> int:
    """Serve tools of the engine to a server, until SIGTERM or Ctrl-C.

    The API key is in the environment variable AGENTIC_KERNEL_API_KEY. One runner has one job at a
    time; start several processes for more.
    """
    module = installed("agentic_kernel_server.tool_runner")
    registry = loaded(tools)
    from agentic_kernel_server.observing.logs import begin

    begin("debug" if context.find_root().params.get("debug") else "info")

    async def serving() -> None:
        made = module.ToolRunner(
            registry,
            server,
            runner_id or tools.partition(":")[0],
            key=os.environ.get(KEY_VARIABLE, ""),
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, made.stop)
        try:
            await made.run()
        except module.RunnerRefused as refused:
            if not refused.unauthorized:
                raise
            have = "is refused" if os.environ.get(KEY_VARIABLE) else "is not set"
            raise CannotStart(
                f"{server}: {refused}. The variable {KEY_VARIABLE} {have}: give it a key with the "
                "scope runner, which `agentic-kernel keys make` makes"
            ) from refused

    asyncio.run(serving())
    return 0


@keys.command()
def make(
    context: typer.Context,
    file: KeyPath,
    principal: Annotated[str, typer.Option(help="The user or program of the key.")],
    scope: Annotated[
        list[str],
        typer.Option(
            help="client, agent, runner, approver, metrics or admin; give it again for more."
        ),
    ],
    tenant: Annotated[str, typer.Option(help="The tenant; others' executions are hidden.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36_500, help="The key expires after these days.")
    ] = None,
) -> int:
    """Make a key and print it. It is shown once: the file keeps only its hash."""
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    text, key = _file(file).make(principal, scope, tenant=tenant, expires_at=expires)
    if context.obj.as_json:
        rendering.json_line("key", {"key": text, **_shown(key)})
    else:
        typer.echo(text)
    return 0


@keys.command("list")
def list_keys(context: typer.Context, file: KeyPath) -> int:
    """List the keys: id, state, scopes, principal and tenant of each, without the secrets."""
    now = datetime.now(UTC)
    for key in _file(file).read():
        fields = _shown(key)
        if context.obj.as_json:
            rendering.json_line("key", fields)
            continue
        state = "usable" if key.usable(now) else "revoked" if key.revoked_at else "expired"
        scopes = ",".join(fields["scopes"])
        typer.echo(f"{key.id}  {state:<7}  {scopes}  {label(key.principal)}  {label(key.tenant)}")
    return 0


@keys.command()
def revoke(
    context: typer.Context,
    file: KeyPath,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id, as list shows it.")],
) -> int:
    """Revoke a key. A server that uses the file refuses the key from then on."""
    key = _file(file).revoke(key_id)
    if context.obj.as_json:
        rendering.json_line("key", _shown(key))
    else:
        typer.echo(f"{key.id}: revoked")
    return 0


def loaded(name: str) -> ToolRegistry:
    """The tools that ``MODULE:NAME`` names; the module may lie in the current folder.

    Raises:
        InvalidValue: There is no such module or name, or it holds no tools.
    """
    from agentic_kernel_engine.seams import Tool, ToolRegistry, Tools

    module, mark, attribute = name.partition(":")
    if not module or not mark or not attribute:
        raise InvalidValue("--tools", f"is {label(name)}; use MODULE:NAME, e.g. my_tools:tools")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise InvalidValue("--tools", f"cannot be imported: {error}") from error
    except AttributeError as error:
        raise InvalidValue("--tools", f"{label(module)} has no {label(attribute)}") from error
    if isinstance(found, ToolRegistry):
        return found
    return (
        Tools(found)
        if isinstance(found, Tool) or not isinstance(found, Iterable)
        else Tools(*found)
    )


def installed(name: str = "agentic_kernel_server") -> ModuleType:
    """A module of the server.

    Raises:
        CannotStart: The server is not installed; the message says how to install it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing != "agentic_kernel_server":
            raise
        raise CannotStart(
            f"the server needs a package that is not installed: {install('server')}"
        ) from error


def _file(path: Path) -> Any:
    return installed("agentic_kernel_server.security").KeyFile(path)


def _shown(key: Any) -> dict[str, Any]:
    """The fields of a key that may be shown."""
    moments = {
        name: None if value is None else value.isoformat()
        for name, value in (
            ("created_at", key.created_at),
            ("expires_at", key.expires_at),
            ("revoked_at", key.revoked_at),
        )
    }
    return {
        "id": key.id,
        "principal": key.principal,
        "tenant": key.tenant,
        "scopes": sorted(key.scopes),
        **moments,
    }
