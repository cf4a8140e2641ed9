"""Parts of a package that are not what they should be are refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import CannotStart, Task
from agentic_kernel_cli import works
from agentic_kernel_cli.doctor import _entry
from agentic_kernel_engine.discovery import (
    Allowed,
    Found,
    NoOptions,
    ProviderEntry,
    RuntimeEntry,
)
from agentic_kernel_engine.seams import ScriptedPlanner

TASK = Task.new(summary="", instructions="x", runtime_kind="acme")


class Steps:
    """A substrate that keeps what it was made with."""

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self.accepted: list[Task] = []
        self.closed = 0

    async def accept(self, task: Task) -> None:
        self.accepted.append(task)

    async def execute(self, job: Any) -> Any:
        raise AssertionError

    def close(self) -> None:
        self.closed += 1


def work(monkeypatch: pytest.MonkeyPatch, entry: Any, model: str | None = "m") -> works.Work:
    monkeypatch.setattr(works, "entry_of", lambda runtime: entry)
    return works.work_of("acme", model, ())


def boom(*given: Any) -> Any:
    raise OSError("no licence")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (ProviderEntry(make=boom, options=NoOptions), "OSError: no licence"),
        (RuntimeEntry(make=boom, options=NoOptions), "OSError: no licence"),
        (
            ProviderEntry(make=lambda model, given: ScriptedPlanner(), options=NoOptions),  # type: ignore[arg-type,return-value]
            "impl is None; the package must give both the same name",
        ),
        (
            RuntimeEntry(make=lambda allowed, given: None, options=NoOptions),  # type: ignore[arg-type,return-value]
            "type NoneType, which has no execute",
        ),
    ],
)
async def test_a_part_that_cannot_be_made_refuses_the_task_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, entry: Any, told: str
) -> None:
    with pytest.raises(CannotStart, match="acme") as refused:
        await work(monkeypatch, entry).accept(TASK, None)
    assert told in refused.value.reason


async def test_a_substrate_is_made_once_with_what_it_takes_and_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Steps] = []

    def make(allowed: Allowed, given: NoOptions) -> Steps:
        made.append(Steps(allowed))
        return made[-1]

    entry = RuntimeEntry(make=make, options=NoOptions, takes={"model", "system"})
    there = work(monkeypatch, entry)
    told = Task.new(
        summary="", instructions="x", runtime_kind="acme", metadata={"acme/system": "Be brief."}
    )
    await there.accept(told, None)
    await there.accept(told, None)
    (steps,) = made
    assert (steps.allowed.model, steps.allowed.system) == ("m", "Be brief.")
    assert [dict(task.metadata) for task in steps.accepted] == [{}, {}]
    await there.close()
    assert steps.closed == 1


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        (boom, "OSError: no licence"),
        (lambda: 7, "TypeError"),
    ],
)
async def test_checks_that_fail_are_a_finding_and_stop_no_other(checks: Any, told: str) -> None:
    entry = RuntimeEntry(make=boom, options=NoOptions, checks=checks)
    there = Found("acme", "agentic_kernel.runtimes", "acme-parts", "1.0", "acme:E")
    object.__setattr__(there, "load", lambda: entry)
    offered, failed = await _entry("runtime", there)
    assert offered.ok
    assert not failed.ok
    assert told in failed.detail
