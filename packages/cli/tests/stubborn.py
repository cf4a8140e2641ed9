"""A command that runs a Task which passes no safe point: ``stubborn.py STATE ID``."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from agentic_kernel import Task
from agentic_kernel_cli.place import Folder
from agentic_kernel_cli.proposals import last_words
from agentic_kernel_cli.running import Foreground
from agentic_kernel_cli.streaming import TextScreen
from agentic_kernel_engine import Host, Job
from agentic_kernel_file import FileStore


class Stubborn:
    async def execute(self, job: Job) -> None:
        job.emit({"type": "run.delta", "text": "said, "})
        await job.commit({"said": True})
        job.emit({"type": "run.delta", "text": "and never committed"})
        await asyncio.Event().wait()


def main(state: Path, task_id: str) -> int:
    place = Folder(state, named=True)
    foreground = Foreground(
        lambda stop: TextScreen(place, lambda: stop.wish(141)),
        lambda observer, kinds: Host(Stubborn(), FileStore(state), observer=observer, claims=False),
        partial(last_words, place),
    )
    task = Task.new(summary="", instructions="", runtime_kind="local", id=task_id)
    return asyncio.run(foreground.launch(task))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
