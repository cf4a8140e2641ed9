"""The process that starts the workers: ``python -m …substrate_forks FACTORY``.

It imports the engine and the author's module once, and then forks one worker for each line that it
reads. A fork takes milliseconds, and an interpreter that imports all of it takes half a second.
Every process below it that loses its parent becomes its child, so that none is lost from sight.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import traceback
from typing import Any, Final

import agentic_kernel_engine.host.host  # noqa: F401 - imported before the first fork

from .substrate_factory import SubstrateFactory
from .substrate_worker import Orders, work

_PR_SET_CHILD_SUBREAPER: Final = 36


def start(told: dict[str, Any]) -> int:
    """Fork a worker, and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(told["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for target, source in ((0, nothing), (1, output), (2, output)):
            os.dup2(source, target)
        os.close(nothing)
        os.close(output)
        os.environ.update(told["environment"])
        orders = told["orders"]
        work(Orders(**{**orders, "arguments": tuple(orders["arguments"])}))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def kill(pid: int) -> None:
    """End a worker as ``kill -9`` does; return when it is gone."""
    if pid <= 0:
        raise ValueError(f"a worker's process id must be over 0, not {pid}")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def reap(workers: set[int]) -> None:
    """Collect the ends of processes that lost their parent."""
    with contextlib.suppress(ChildProcessError):
        while True:
            # WNOWAIT: the end of a worker is left for `kill`.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid in workers:
                return
            os.waitpid(found.si_pid, 0)


def main(path: str) -> None:
    """Serve the lines of the standard input until it ends; then end all workers."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    workers: set[int] = set()
    SubstrateFactory(path).load()
    threads = [thread.name for thread in threading.enumerate() if thread.name != "MainThread"]
    _say({"threads": threads})
    for line in sys.stdin:
        told = json.loads(line)
        if "start" in told:
            pid = start(told["start"])
            workers.add(pid)
            _say({"pid": pid})
        else:
            kill(told["kill"])
            workers.discard(told["kill"])
            reap(workers)
            _say({})
    for pid in workers:
        kill(pid)


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
