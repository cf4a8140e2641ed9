"""The verb ``runner``: tools for a server."""

from __future__ import annotations

from typing import Annotated

import typer


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
    import asyncio
    import os
    import signal

    from agentic_kernel import CannotStart

    from ..serving import KEY_VARIABLE, installed, loaded

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
