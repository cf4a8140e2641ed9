"""The local runtime: the real small model, held to the script by constrained decoding."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Context, Delta, FinalAnswer, Plan, ToolCall
from agentic_kernel_local import AnswerOptions, LocalPlanner, find_model
from agentic_kernel_local.engine import Engine, EngineOptions, Request
from agentic_kernel_local.generation import Generation

from ..scenarios import SCENARIOS
from ..script import Answer, Overflows, actions
from ..setting import Setting
from ..trace import Trace, without_text_in_progress

SLOTS = 1
CONTEXT_TOKENS = 4096


class Runtime:
    """See `Subject`; the model is loaded once, for all scenarios."""

    name = "local"
    kind = "local"
    closed: Mapping[str, str] = {
        "parallel tools": "one answer is one action, so there are no two calls in it",
        "question": "it is offered tools and the final answer, no question to the user",
        "refusal": "decoding admits only actions, so the model cannot refuse",
    }
    unseen: Mapping[str, str] = {
        scenario.name: "there is no wire to look at" for scenario in SCENARIOS
    }

    otherwise: Sequence[str] = (
        "What is on its way is the JSON of an action and no text, so nothing is kept of an answer "
        "that is cut short.",
    )

    def __init__(self, keep: ExitStack) -> None:
        """Load the model; it is let go of when ``keep`` is closed."""
        engine = asyncio.run(Engine.open(EngineOptions(find_model(), SLOTS, CONTEXT_TOKENS)))
        keep.callback(lambda: asyncio.run(engine.close()))

    def comparable(self, traced: Trace) -> Trace:
        return without_text_in_progress(traced)

    @asynccontextmanager
    async def runtime(self, setting: Setting) -> AsyncIterator[Host]:
        planner = Held(setting.script, setting.spent)
        loop = Loop(planner, setting.tools, **setting.options)
        try:
            async with Host(
                loop,
                setting.store,
                runtime_kinds=[self.kind],
                observer=setting.observer,
                interval=setting.interval,
            ) as host:
                yield host
        finally:
            await planner.close()


class Held(LocalPlanner):
    """A LocalPlanner whose model can say nothing but the next answer of a script."""

    def __init__(self, script: Sequence[Answer], spent: list[float]) -> None:
        super().__init__(
            answer=AnswerOptions(max_tokens=3_000),
            slots=SLOTS,
            context_tokens=CONTEXT_TOKENS,
        )
        self._script: Iterator[Answer] = iter(script)
        self.spent = spent

    async def open(self) -> Engine:
        return cast("Engine", OneAnswer(await super().open(), self))

    def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        self.answer = next(self._script)
        return super().plan(context)


class OneAnswer:
    """An Engine for one planner: the schema of every request admits one answer only."""

    def __init__(self, engine: Engine, planner: Held) -> None:
        self._engine = engine
        self._planner = planner
        self.options = engine.options

    @asynccontextmanager
    async def generate(self, request: Request) -> AsyncIterator[Generation]:
        answer = self._planner.answer
        if not isinstance(answer, Overflows):
            request = replace(request, schema=_only(answer))
        began = time.perf_counter()
        try:
            async with self._engine.generate(request) as generation:
                yield generation
        finally:  # The planner leaves as soon as it has an answer.
            self._planner.spent.append(time.perf_counter() - began)


def _only(answer: Answer) -> dict[str, Any]:
    """JSON Schema of exactly this answer, in the form of `prompting.action_schema`."""
    (action,) = actions(answer)
    if isinstance(action, ToolCall):
        form: dict[str, Any] = {"tool": action.tool, "arguments": dict(action.arguments)}
    else:
        assert isinstance(action, FinalAnswer)
        form = {"answer": action.output}
    return {"const": form}
