"""What importing a sibling adds once its vendor's SDK is there, each time in a fresh program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from figure import Figure

ROUNDS = 9
_PROGRAM = """
import gc, time
gc.disable()
began = time.perf_counter()
import {sdk}
sdk = time.perf_counter()
from agentic_kernel_engine import Host, Loop, MemoryStore
engine = time.perf_counter()
import {ours}
print(sdk - began, engine - sdk, time.perf_counter() - engine)
"""


def imported(sdk: str, ours: str) -> Figure:
    """What the sibling adds to its SDK; the best of `ROUNDS`.

    The kernel and the engine, which a program loads once whatever it is made of, are told beside
    it: its Host, Loop and store in memory, because the engine's package alone loads nothing. What
    the engine has for such siblings alone (``providers``) counts as the sibling's. The first
    program leaves the bytecode, as an installation does, in a folder of this measurement's own. No
    garbage is collected meanwhile: whether one long collection comes in the sibling's part, or
    before it, hangs on a few objects more or less in the SDK.

    Args:
        sdk: What is imported before the clock starts, e.g. ``"openai"``; several with commas.
        ours: What is imported then.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        timed = []
        for _ in range(1 + ROUNDS):
            said = subprocess.run(
                [sys.executable, "-c", _PROGRAM.format(sdk=sdk, ours=ours)],
                check=True, capture_output=True, text=True, env=environment,
            )  # fmt: skip
            timed.append([float(each) * 1e3 for each in said.stdout.split()])
    bare, engine, added = (min(column) for column in zip(*timed[1:], strict=True))
    return Figure(
        name=f"importing {ours} over its SDK and the engine",
        ours=added, unit="ms", limit=bare, bar=20,
        limit_is=f"importing the SDK; the kernel and the engine take {engine:.0f} ms",
    )  # fmt: skip
