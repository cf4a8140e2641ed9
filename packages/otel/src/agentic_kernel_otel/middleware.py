"""TracingMiddleware: reports when calls of models and tools begin and end. It changes no call."""

from __future__ import annotations

import logging
from time import time_ns as now
from typing import TYPE_CHECKING

from opentelemetry import context as contexts

from agentic_kernel_engine.faults import log
from agentic_kernel_engine.loop import Context, Observation, Plan
from agentic_kernel_engine.seams import Invocation, model_of

from .messages import input_messages

if TYPE_CHECKING:
    from .tracing import Tracing

_log = logging.getLogger(__name__)


class TracingMiddleware:
    """Reports to an `OTelObserver` when calls begin and end, and makes their spans current in them.

    So the spans and logs of a vendor's SDK and of a tool are at the right place in the trace. Give
    it as the last middleware, so that it is nearest to the calls. The middleware logs the first
    fault of its own, and no such fault fails a run.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._faulty = False

    async def before_model(self, context: Context) -> None:
        means = self._tracing.means
        try:
            preset = context.response is not None
            shown = ""
            if means.capture and not preset:
                shown = input_messages(context.transcript, means.redaction)
            spans = self._tracing.within(context.task)
            contexts.attach(spans.ask(now(), context.step, preset=preset, input=shown))
        except Exception as fault:
            self._failed(fault)

    async def after_model(self, context: Context, plan: Plan) -> None:
        try:
            spans = self._tracing.within(context.task)
            other = context.planner
            spans.answered(plan, now(), None if other is None else model_of(other))
            contexts.attach(spans.context)
        except Exception as fault:
            self._failed(fault)

    async def before_tool(self, invocation: Invocation) -> None:
        try:
            spans = self._tracing.running(invocation.context.task_id, now())
            if spans is not None:
                # The context attached here is current in the call, and ends with its asyncio task.
                contexts.attach(
                    spans.call(
                        invocation.context.index, invocation.tool.name, now(),
                        id=invocation.call.id, effect=invocation.tool.effect,
                        arguments=invocation.arguments,
                    )
                )  # fmt: skip
        except Exception as fault:
            self._failed(fault)

    async def after_tool(self, invocation: Invocation, observation: Observation) -> None:
        try:
            spans = self._tracing.running(invocation.context.task_id, now())
            if spans is not None:
                spans.returned(invocation.context.index, observation, now())
                contexts.attach(spans.context)
        except Exception as fault:
            self._failed(fault)

    def _failed(self, fault: Exception) -> None:
        if not self._faulty:
            self._faulty = True
            log(_log, fault, "a call was not traced; this is reported once")
