"""An agent or a runner of the chaos run: a process of the real client, which may be killed.

``python -m integration.server_chaos_client agent|runner NAME URL FOLDER``. It ends when its
standard input does. It appends each effect, and each report that the client could not make, to a
file of FOLDER, by one write of one line: a process that is killed has written it or not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import rebuno
from rebuno.runner import Runner

EFFECTS: Final = "effects"
"""The file with one token for each effect of the remote tool."""
GAVE_UP: Final = {
    "Failed to submit fail intent": "given_up",
    "Unhandled exception in execution task": "given_up",
    "Failed to submit success result": "unreported",
}
"""What the client's log says of a report that it could not make, and the file that counts it."""


def lines_of(folder: Path, name: str) -> Counter[str]:
    """The lines of a file, with the number of times that each is there."""
    path = folder / name
    return Counter(path.read_text().split("\n")[:-1] if path.exists() else ())


def _append(folder: Path, name: str, line: str) -> None:
    file = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


class GivenUp(logging.Handler):
    """Writes down what the client's log says of reports that it could not make."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        """Write down one record."""
        for said, name in GAVE_UP.items():
            if record.msg.startswith(said):
                _append(self._folder, name, str(os.getpid()))


@rebuno.tool("fx.add", remote=True)
async def add(token: str, n: int) -> Any: ...


@rebuno.tool("local.double")
def double(n: int) -> int:
    return 2 * n


async def handler(n: int) -> list[int]:
    """Two remote effects, a local step, and a wait."""
    id = rebuno.execution.id
    n = await add(f"{id}.1", n)
    n = await add(f"{id}.2", n)
    n = await double(n)
    return [n, await rebuno.execution.wait_signal("go")]


def _die_with_the_run() -> None:
    sys.stdin.read()
    os._exit(0)


def main(what: str, name: str, url: str, folder: str) -> None:
    """Work until the process is killed, or its standard input ends."""
    place = Path(folder)
    log = logging.getLogger("rebuno")
    log.addHandler(GivenUp(place))
    log.propagate = False
    threading.Thread(target=_die_with_the_run, daemon=True).start()
    sys.stdout.write("up\n")
    sys.stdout.flush()
    if what == "agent":
        agent = rebuno.Agent(name, kernel_url=url, reconnect_delay=0.1)
        asyncio.run(agent.run_async(handler))
        return

    @rebuno.tool("fx.add")
    async def really(token: str, n: int) -> int:
        await asyncio.sleep(0.01)
        _append(place, EFFECTS, token)
        return n + 1

    runner = Runner(name, kernel_url=url, tools=[really], reconnect_delay=0.1)
    asyncio.run(runner.run_async())


if __name__ == "__main__":
    main(*sys.argv[1:])
