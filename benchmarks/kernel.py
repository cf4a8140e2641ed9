"""The kernel: one transition, and its import."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial

from figure import Figure, interleaved

from agentic_kernel import Complete, Dispatch, Pause, Resume, Task, apply


def measure() -> list[Figure]:
    """Both figures of the kernel."""
    return [_apply(), _import()]


def _apply() -> Figure:
    now = datetime.now(UTC)
    new = Task.new(summary="Sum", instructions="1 + 1", runtime_kind="acme", metadata={"a": 1})
    life = (Dispatch(), Pause(), Resume(), Complete(2))
    names = [field.name for field in dataclasses.fields(Task)]
    plain = dataclasses.make_dataclass("Plain", names, frozen=True, slots=True)
    values = [getattr(new, name) for name in names]

    def whole_life() -> None:
        task = new
        for mutation in life:
            task = apply(task, mutation, now)

    def built_positionally() -> None:
        for _ in life:
            plain(*values)

    best = interleaved({"ours": whole_life, "limit": built_positionally}, number=5_000, rounds=15)
    return Figure(
        name="one `apply`, the mean of dispatch, pause, resume and complete",
        ours=best["ours"] / len(life) * 1e6,
        unit="µs",
        limit=best["limit"] / len(life) * 1e6,
        limit_is="a frozen dataclass of as many fields, built positionally",
        bar=1.5,
    )


STDLIB = "dataclasses, datetime, enum, typing, collections.abc, threading, os, time"
"""What the kernel cannot do without."""


def _import() -> Figure:
    scripts = {
        "bare": "pass",
        "limit": f"import {STDLIB}",
        "ours": "import agentic_kernel, agentic_kernel.invariants",
    }
    contestants = {name: partial(_python, script) for name, script in scripts.items()}
    for warm in contestants.values():
        warm()
    best = interleaved(contestants, number=1, rounds=40)
    return Figure(
        name="import of the kernel, over the bare interpreter",
        ours=(best["ours"] - best["bare"]) * 1e3,
        unit="ms",
        limit=(best["limit"] - best["bare"]) * 1e3,
        limit_is="the parts of the standard library that it needs",
        bar=25,
    )


def _python(script: str) -> None:
    # -I: as installed, and whatever the caller's environment variables say.
    subprocess.run([sys.executable, "-I", "-c", script], check=True)
