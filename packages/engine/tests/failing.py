"""Shared by the tests of failing calls: a planner that fails, and its bill."""

from __future__ import annotations

from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine.plans.action import FinalAnswer
from agentic_kernel_engine.plans.ending import PlannerError
from agentic_kernel_engine.plans.limits import Remaining
from agentic_kernel_engine.plans.plan import Plan, Usage
from agentic_kernel_engine.seams.middlewares import Retry
from agentic_kernel_engine.seams.planner import Context

WORST = Usage(100, 50, cost=1.0)
DONE = Plan((FinalAnswer("done"),), usage=Usage(10, 5, cost=0.1))


class Bill:
    """The bill of a provider: the worst case of every call that reaches it, failed or not."""

    def __init__(self) -> None:
        self.calls = 0

    @property
    def charged(self) -> Usage:
        return Usage(100 * self.calls, 50 * self.calls, cost=1.0 * self.calls)


class Failing:
    """A planner whose calls are charged and fail, as often as it is told to, and then answer."""

    def __init__(self, bill: Bill, failures: int = 99, answer: Any = DONE) -> None:
        self.bill = bill
        self.failures = failures
        self.answer = answer
        self.seen: list[Remaining] = []

    def worst_case(self, context: Context) -> Usage:
        return WORST

    async def plan(self, context: Context) -> Any:
        self.bill.calls += 1
        self.seen.append(context.remaining)
        if self.failures:
            self.failures -= 1
            raise PlannerError("test/busy", "busy")
        return self.answer


def quick() -> Retry:
    return Retry(["test/busy"], times=9, first=0, longest=0)


def slow(delay: float = 600.0) -> Retry:
    return Retry(["test/busy"], first=delay, longest=delay, jitter=lambda: 1.0)


def reason(task: Task) -> Any:
    return task.metadata["engine/stop_reason"]
