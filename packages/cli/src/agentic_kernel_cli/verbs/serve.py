"""The verb ``serve``: the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
        float,
        typer.Option(
            min=1,
            max=31_536_000,
            help="The longest execution, in seconds, unless its request says another time.",
        ),
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
    from ..serving import installed

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
