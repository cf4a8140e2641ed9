"""A command that runs a Task whose planner has a bug: ``faulty.py STATE ID [--debug]``."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from agentic_kernel import Task
from agentic_kernel_cli.logs import begin_logging
from agentic_kernel_cli.place import Folder
from agentic_kernel_cli.proposals import last_words
from agentic_kernel_cli.running import Foreground
from agentic_kernel_cli.streaming import TextScreen
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Context, Plan
from agentic_kernel_file import FileStore


class Faulty:
    async def plan(self, context: Context) -> Plan:
        raise ValueError("no such \x1b[2Jthing\nERROR: forged")  # the bug


def main(state: Path, task_id: str) -> int:
    place = Folder(state)
    foreground = Foreground(
        lambda stop: TextScreen(place, lambda: stop.wish(141)),
        lambda observer, kinds: Host(
            Loop(Faulty()), FileStore(state), observer=observer, claims=False
        ),
        partial(last_words, place),
    )
    task = Task.new(summary="", instructions="", runtime_kind="local", id=task_id)
    return asyncio.run(foreground.launch(task))


if __name__ == "__main__":
    begin_logging(debug="--debug" in sys.argv)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
