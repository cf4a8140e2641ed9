"""A process that is interrupted or terminated leaves no server behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PLAIN, until
from .test_hostile import gone

PROGRAM = """
import asyncio, os, signal, sys
from agentic_kernel_mcp import MCPTools, StdioServer

# A shell lets what it runs in the background ignore Ctrl-C, and so do the children of that.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    command = ("-IS", sys.argv[1], sys.argv[2], *sys.argv[4:])
    async with MCPTools({"it": StdioServer(sys.executable, command)}) as tools:
        if sys.argv[3] == "handled":
            me = asyncio.current_task()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("number", "how", "more"),
    [
        pytest.param(
            signal.SIGINT,
            "",
            ("--listing", "stubborn"),
            id="ctrl-c, stubborn",
            marks=pytest.mark.torture,  # `test_hostile` ends a stubborn server in less time.
        ),
        pytest.param(signal.SIGTERM, "", (), id="terminated"),
        pytest.param(signal.SIGINT, "", (), id="ctrl-c", marks=pytest.mark.torture),
        pytest.param(
            signal.SIGTERM,
            "handled",
            ("--listing", "stubborn"),
            id="handled, stubborn",
            marks=pytest.mark.torture,
        ),
        pytest.param(signal.SIGKILL, "", (), id="killed", marks=pytest.mark.torture),
    ],
)
async def test_no_server_outlives_its_process(
    tmp_path: Path, number: signal.Signals, how: str, more: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", PROGRAM, PLAIN, str(log), how, *more],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == "up\n"
    server = children(process.pid)
    assert server
    process.send_signal(number)
    await until(lambda: process.poll() is not None and all(map(gone, server)))


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]
