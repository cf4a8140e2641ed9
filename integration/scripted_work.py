"""Work for the contracts of a Runtime, and the script that an independent server follows."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel import Task
from agentic_kernel_conformance import RuntimeFeatures
from agentic_kernel_engine import Event, tool
from agentic_kernel_engine.events import RUN_DELTA

FEATURES = RuntimeFeatures(pauses=True, keeps_partial_output=True, streams=True, refuses=True)
STEPS = 3
LONG = "and so on " * 4_000
"""With a piece every 10 ms it takes minutes."""
CALL = {"name": "step", "arguments": {}}
TOO_LONG = {"message": "prompt is too long: 3 tokens > 2 maximum", "type": "invalid_request_error"}
SCRIPT: list[dict[str, Any]] = [
    {"match": {"userMessage": "Say hello."}, "response": {"content": "Hello."}},
    {"match": {"userMessage": "Fail."}, "response": {"error": TOO_LONG, "status": 400}},
    {
        "match": {"userMessage": "Go on."},
        "response": {"content": LONG},
        "latency": 10,
        "chunkSize": 2,
    },
    *(
        {"match": {"userMessage": "Step.", "turnIndex": n}, "response": {"toolCalls": [CALL]}}
        for n in range(STEPS)
    ),
    # It takes the turn that is nearest below, so the last one has a number as well.
    {"match": {"userMessage": "Step.", "turnIndex": STEPS}, "response": {"content": "Done."}},
]


@tool(effect="none", inline=True)
def step() -> str:
    """Do one step."""
    return "done"


class ScriptedWork:
    """Tasks of one kind that the script has an answer for.

    Args:
        kind: The runtime kind, which is the scope of its options as well.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._answering: dict[str, asyncio.Event] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Notice the first text of an answer."""
        if event.type == RUN_DELTA:
            self._first_text(task_id).set()

    def succeed(self) -> Task:
        return self._asked("Say hello.")

    def fail(self) -> Task:
        return self._asked("Fail.")

    def run_until_stopped(self) -> Task:
        return self._asked("Go on.")

    def pass_safe_points(self) -> Task:
        return self._asked("Step.")

    def refused(self) -> Task:
        return self._asked("Say hello.", max_tokens=0)

    def expected_result(self, task: Task) -> Any:
        return "Hello."

    async def until_output(self, task: Task) -> None:
        await self._first_text(task.id).wait()

    def _first_text(self, task_id: str) -> asyncio.Event:
        return self._answering.setdefault(task_id, asyncio.Event())

    def _asked(self, instructions: str, **options: Any) -> Task:
        return Task.new(
            summary="",
            instructions=instructions,
            runtime_kind=self._kind,
            metadata={f"{self._kind}/{name}": value for name, value in options.items()},
        )
