"""What importing a sibling adds once its vendor's SDK is there, each time in a fresh program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from figure import Figure

ROUNDS = 9
_PROGRAM = """
import time
began = time.perf_counter()
import {sdk}
between = time.perf_counter()
import {ours}
print(between - began, time.perf_counter() - between)
"""


def imported(sdk: str, ours: str) -> Figure:
    """The figure, kernel and engine counted as the sibling's own; the best of `ROUNDS`.

    The first program leaves the bytecode, as an installation does, in a folder of this
    measurement's own.

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
    bare, added = (min(column) for column in zip(*timed[1:], strict=True))
    return Figure(
        name=f"importing {ours} after its SDK, kernel and engine counted as ours",
        ours=added, unit="ms", limit=bare, limit_is="importing the SDK", bar=20,
    )  # fmt: skip
