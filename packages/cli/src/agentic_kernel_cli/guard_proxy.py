"""The commands that put the guard in front of an MCP server: proxy, tools, keys."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from agentic_kernel import InvalidValue

# Importing them adds the other commands of the guard.
from . import guard_approvals as guard_approvals
from . import rendering
from .guard_trace import Keys, Place, keyring, secret, store_at
from .guarding import BadRules, guard, read_rules, used
from .kinds import install
from .text import label, line

CREDENTIAL_VARIABLE: Final = "AGENTIC_KERNEL_GUARD_CREDENTIAL"
"""The bearer token of clients, as the file of ``--credential`` has it."""

_Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND...", help="The program of the MCP server, and its words."),
]
_Url = Annotated[
    str | None, typer.Option(metavar="URL", help="The address of the MCP server instead.")
]
_Name = Annotated[
    str, typer.Option(help="The server's name: its capabilities are called <name>/<tool>.")
]
_Env = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A variable that the server's program gets, too."),
]
_Header = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VARIABLE",
        help="A header for the server, with its value in a variable of the environment.",
    ),
]
_Specs = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What you say about the tools: .yaml, .yml or .toml."),
]
_Pins = Annotated[Path | None, typer.Option(metavar="FILE", help="The tools that were accepted.")]

commands: Final = guard
"""The commands of the guard."""


@guard.command()
def proxy(
    context: typer.Context,
    store: Place,
    command: _Command = None,
    url: _Url = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rules; the guard's defaults without it.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve over HTTP; over stdin and stdout without."),
    ] = None,
    principal: Annotated[str, typer.Option(help="For whom the client acts.")] = "agent",
    tenant: Annotated[str, typer.Option(help="The principal's tenant.")] = "",
    role: Annotated[
        list[str] | None, typer.Option(help="A role of the principal; may be given again.")
    ] = None,
    kind: Annotated[str, typer.Option(help="The principal's kind: user or service.")] = "user",
    name: _Name = "server",
    specs: _Specs = None,
    pins: _Pins = None,
    keys: Keys = None,
    mode: Annotated[
        str, typer.Option(help="How results are shown: summary, table, handle_only or raw.")
    ] = "table",
    chars: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="The most characters of a result.")
    ] = 4_000,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="The most seconds of a call.")
    ] = 60.0,
    env: _Env = None,
    header: _Header = None,
    credential: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"The bearer token of clients over HTTP; or set {CREDENTIAL_VARIABLE}.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PORT", help="Another name by which clients reach it."),
    ] = None,
) -> int:
    """Put the guard in front of an MCP server, as an MCP server.

    A client sees the tools that the rules speak about, and results that the firewall has made. A
    call that needs an approval is refused with an id; after `guard approve ID` it runs once.
    """
    proxying = _proxying()
    server = _server(command, url, env, header)
    settings = proxying.Settings(
        name=name, server=server, rules=_rules(policy), specs=_spec_file(specs), pins=pins,
        principal=principal, tenant=tenant, roles=tuple(role or ()), kind=kind, mode=mode,
        chars=chars, timeout=timeout,
    )  # fmt: skip
    ring = keyring(keys)
    listener = None
    if listen is not None:
        listener = proxying.listener(
            listen, secret(credential, CREDENTIAL_VARIABLE).strip(), tuple(allow_host or ())
        )
    elif credential is not None or allow_host:
        raise typer.BadParameter("--credential and --allow-host go with --listen")
    held = store_at(store, new=True)

    def say(text: str) -> None:
        typer.echo(line(text), err=True)

    async def until_stopped() -> int:
        stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def stop(number: int) -> None:
            if not stopped.done():
                stopped.set_result(128 + number)

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        serving = asyncio.create_task(proxying.serve(settings, held, ring, listener, say))
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
            return 0
        serving.cancel()
        await asyncio.wait([serving])
        if not serving.cancelled():
            await serving
        return stopped.result()

    return int(_reported(until_stopped()))


@guard.command()
def tools(
    context: typer.Context,
    command: _Command = None,
    url: _Url = None,
    name: _Name = "server",
    specs: _Specs = None,
    pins: _Pins = None,
    env: _Env = None,
    header: _Header = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="TOOL", help="Accept a new or changed tool; may be given again."),
    ] = None,
) -> int:
    """List the tools of an MCP server as the guard sees them; accept new and changed ones."""
    proxying = _proxying()
    if accept and pins is None:
        raise typer.BadParameter("--accept goes with --pins FILE, which keeps what was accepted")
    settings = proxying.Settings(
        name=name, server=_server(command, url, env, header), specs=_spec_file(specs), pins=pins
    )
    found, withheld = _reported(proxying.listed(settings, tuple(accept or ())))
    for spec, tool in found:
        said = {
            "capability": spec.name, "tool": tool, "safety": spec.safety.value,
            "idempotent": spec.idempotent, "sensitivity": spec.sensitivity.value,
            "description": spec.description,
        }  # fmt: skip
        if context.obj.as_json:
            rendering.json_line("tool", said)
        else:
            summary = spec.description.strip().splitlines()[0]
            typer.echo(f"{label(spec.name)}  {spec.safety.value}  {label(summary, 60)}")
    for tool, reason in withheld:
        if context.obj.as_json:
            rendering.json_line("withheld", {"tool": tool, "reason": reason})
        else:
            typer.echo(f"{label(tool)} is withheld: {line(reason)}", err=True)
    return 0


@guard.command("keys")
def new_keys(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    id: Annotated[str, typer.Option(help="The id of the key, which is public.")] = "k1",
) -> int:
    """Make a file with a new key, which only you can read."""
    read_rules()
    from agentic_kernel_guard import Keyring

    text = f"{id}:{secrets.token_hex(32)}\n"
    try:
        Keyring.read(text)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
            made.write(text)
    except FileExistsError:
        raise BadRules(f"{file}: is there already; name another file") from None
    except InvalidValue as error:
        raise BadRules(str(error)) from None
    return 0


def _proxying() -> Any:
    """The module that joins the guard and MCP."""
    for extra, package in (("guard", "agentic_kernel_guard"), ("mcp", "agentic_kernel_mcp")):
        try:
            __import__(package)
        except ImportError:
            raise BadRules(f"{package} is not installed; {install(extra)}") from None
    from . import proxying

    return proxying


def _reported(work: Any) -> Any:
    """Return the result of a coroutine; the errors of the guard and of MCP are said in one line."""
    from agentic_kernel_guard import GuardError
    from agentic_kernel_guard.rules import RuleError
    from agentic_kernel_mcp import BadPins, MCPError

    try:
        return asyncio.run(work)
    except GuardError as error:
        raise BadRules(error.message) from None
    except (RuleError, BadPins, MCPError) as error:
        raise BadRules(str(error)) from None


def _server(
    command: Sequence[str] | None,
    url: str | None,
    env: Sequence[str] | None,
    header: Sequence[str] | None,
) -> Any:
    from agentic_kernel_mcp import HTTPServer, StdioServer

    if bool(command) is bool(url):
        raise typer.BadParameter("give either --url URL, or -- and the command of the server")
    if url:
        if env:
            raise typer.BadParameter("--env goes with a command")
        headers = {}
        for each in header or ():
            name, _, variable = each.partition("=")
            headers[name] = _variable(variable, f"--header {each}")
        return HTTPServer(url, headers)
    if header:
        raise typer.BadParameter("--header goes with --url")
    assert command, "it is one or the other"
    passed = {name: _variable(name, f"--env {name}") for name in env or ()}
    return StdioServer(command[0], tuple(command[1:]), passed)


def _variable(name: str, option: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise typer.BadParameter(f"{option}: the variable {name!r} is not set; set it")
    return value


def _rules(file: Path | None) -> Any:
    if file is None:
        return None
    return used(file, read_rules().parse)


def _spec_file(file: Path | None) -> Any:
    if file is None:
        return None
    from agentic_kernel_guard.spec_file import parse

    return used(file, parse)
