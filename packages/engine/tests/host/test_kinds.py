"""A Host says which kinds it serves, and if it runs Tasks."""

from __future__ import annotations

from typing import Any

from agentic_kernel_engine import Host, Job


class Nothing:
    async def execute(self, job: Job) -> Any:
        return None


def test_a_host_says_what_it_serves() -> None:
    assert Host(Nothing(), runtime_kinds=["a", "b"]).runtime_kinds == frozenset({"a", "b"})
    assert Host(Nothing()).runtime_kinds is None


def test_a_control_plane_runs_no_tasks() -> None:
    assert Host(Nothing()).runs_tasks
    assert not Host().runs_tasks
