"""RunSpans: the spans of one run of a Task.

`invoke_agent` covers the whole run; below it come `plan` with its `chat`, and `execute_tool`. If
the `TracingMiddleware` reports when a call begins and ends, its span has these times and is current
in the call. Otherwise the spans are made afterwards, from the events of a step. Then the chat ends
when its plan is reported, and the tools take the rest of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode

from agentic_kernel_engine.loop import Observation, Plan

from . import conventions as names
from .means import Means
from .messages import output_messages
from .redaction import MOST_NAME

_NOT_RUN: Final = frozenset(
    {"policy_denied", "skipped", "unknown_tool", "missing_scopes", "indeterminate"}
)
"""Errors of observations whose tool was not called, or not in this process."""


class Call:
    """One call of a tool that has begun."""

    __slots__ = ("began", "span", "tool")

    def __init__(self, span: Span, began: int, tool: str) -> None:
        self.span = span
        self.began = began
        self.tool = tool


class RunSpans:
    """The open spans of one run. All times are in nanoseconds.

    Args:
        span: The run's `invoke_agent` span, already started.
        context: The context in which this span is current.
        began: The time when the run began.
    """

    __slots__ = (
        "_chat", "_chat_began", "_first", "_mark", "_means", "_plan", "agent", "began",
        "context", "elsewhere", "entered", "model", "provider", "span", "timed", "tools",
    )  # fmt: skip

    def __init__(
        self, means: Means, span: Span, context: Context, *, began: int, agent: str, provider: str
    ) -> None:
        self._means = means
        self.span = span
        self.context = context
        self.began = began
        self.agent = agent
        self.provider = provider
        self.model = ""
        """The name by which the run asks its model; "" if it is not known."""
        self.elsewhere = False
        """True if another planner than the run's own gives the answer that comes next."""
        self.entered = False
        """True once the run's `TracedSubstrate` was entered."""
        self._mark = began
        """All spans up to this time exist; a span that is made afterwards begins here."""
        self._plan: Span | None = None
        self._chat: Span | None = None
        self._chat_began = began
        self._first = 0
        """The time of an answer's first piece; 0 before it came."""
        self.timed = False
        """True if the middleware reports the calls of this step."""
        self.tools: dict[int, Call] = {}
        """Calls of tools that have begun, by the index of the action."""

    def named(self, agent: str, model: str) -> None:
        """Learn the names of the run's Agent and model; "" for a name that is not told."""
        self.model = model or self.model
        if agent and not self.agent:
            self.agent = agent
            self.span.set_attribute(names.AGENT, agent)
            self.span.update_name(f"{names.INVOKE_AGENT} {agent}")

    def ask(self, now: int, step: int, *, preset: bool, input: str = "") -> Context:
        """Start the spans of a planner's call, and return the context for it.

        Args:
            preset: True if a middleware already gave the answer: then there is no chat span.
            input: The messages to the model, if content is recorded.
        """
        self._close_answer(now, unfinished=True)
        self.timed = True
        self._plan = self._start(names.PLAN, self.context, now, {names.STEP: step})
        context = trace.set_span_in_context(self._plan, self.context)
        if preset:
            return context
        self._chat_began, self._first = now, 0
        told = {names.INPUT_MESSAGES: input} if input else {}
        self._chat = self._start(names.CHAT, context, now, told, SpanKind.CLIENT)
        return trace.set_span_in_context(self._chat, context)

    def piece(self, now: int) -> None:
        """Note the time of a piece of an answer."""
        if not self._first:
            self._first = now

    def answered(self, plan: Plan, now: int, asked: str | None = None) -> None:
        """End the spans of a planner's call that gave a plan.

        Args:
            asked: The model that was asked, if it was another planner's; "" if that is not known.
        """
        if self._plan is None:
            self._late(now)
        model = self._means.redaction.name(plan.model)
        if asked is None:
            asked = "" if self.elsewhere else self.model
        elif self._chat is not None and (self.model or asked):
            asked = self._means.redaction.name(asked) or model
            self._chat.set_attribute(names.REQUEST_MODEL, asked)
            self._chat.update_name(f"{names.CHAT} {asked}".rstrip())
        self.elsewhere = False
        chat, usage = self._chat, plan.usage
        if chat is not None:
            if chat.is_recording():
                told: dict[str, Any] = {}
                if usage.input_tokens or usage.output_tokens:
                    told[names.INPUT_TOKENS] = usage.input_tokens
                    told[names.OUTPUT_TOKENS] = usage.output_tokens
                if usage.cached_tokens:
                    told[names.CACHED_TOKENS] = usage.cached_tokens
                if usage.reasoning_tokens:
                    told[names.REASONING_TOKENS] = usage.reasoning_tokens
                if usage.cost:
                    told[names.COST] = usage.cost
                if model:
                    told[names.RESPONSE_MODEL] = model
                    if not asked:
                        chat.update_name(f"{names.CHAT} {model}")
                if self._means.capture:
                    told[names.OUTPUT_MESSAGES] = output_messages(plan, self._means.redaction)
                if told:
                    chat.set_attributes(told)
            if usage.input_tokens or usage.output_tokens:
                self._means.instruments.used(
                    usage.input_tokens, usage.output_tokens, self.provider, asked, model
                )
        self._close_answer(now, asked=asked, model=model)
        self._mark = now

    def not_answered(self, code: str, now: int) -> None:
        """End the spans of a planner's call that failed and is not retried."""
        if self._plan is None:
            self._late(now)
        self._close_answer(now, error=code or names.OTHER)
        self._mark = now

    def cut(self, now: int) -> None:
        """End the spans of an answer that was cut short."""
        if self._plan is None:
            self._late(now)
        self._close_answer(now, unfinished=True)

    def mark(self, now: int) -> None:
        """Set the time at which a span that is made afterwards begins."""
        self._mark = now

    def call(
        self, index: int, tool: str, now: int, *, id: str, effect: str, arguments: Any
    ) -> Context:
        """Start the span of a tool's call, and return the context for it."""
        self.timed = True
        before = self.tools.pop(index, None)
        if before is not None:
            self._close_call(before, now, unfinished=True)
        told = {names.EFFECT: effect}
        if id:
            told[names.TOOL_CALL] = self._means.redaction.line(id, MOST_NAME)
        span = self._start_call(tool, now, told)
        if self._means.capture and span.is_recording():
            told_arguments = self._means.redaction.content(arguments)
            span.set_attribute(names.TOOL_ARGUMENTS, told_arguments)
        self.tools[index] = Call(span, now, tool)
        return trace.set_span_in_context(span, self.context)

    def returned(self, index: int, observation: Observation, now: int) -> None:
        """End the span of a tool's call."""
        call = self.tools.pop(index, None)
        if call is not None:
            self._settle(call, observation, now)

    def observed(self, observations: Sequence[Observation], now: int) -> None:
        """End a step, and make the spans of calls that the middleware did not report."""
        for index, observation in enumerate(observations):
            call = self.tools.pop(index, None)
            if call is None:
                if self.timed or not observation.tool or observation.error in _NOT_RUN:
                    continue
                tool = self._means.redaction.name(observation.tool)
                told = {}
                if observation.call:
                    told[names.TOOL_CALL] = self._means.redaction.line(observation.call, MOST_NAME)
                call = Call(self._start_call(tool, self._mark, told), self._mark, tool)
            self._settle(call, observation, now)
        self._mark = now
        self.timed = False

    def end(self, now: int, status: str, code: str = "", message: str = "") -> None:
        """End the run's span, and all spans that are still open in it.

        Args:
            status: The Task's status after the run, or `tracing.LOST`.
            code: The code of the failure, if the Task failed.
            message: The failure's message, if content is recorded, because it may quote content.
        """
        self._close_answer(now, error=code, unfinished=True)
        while self.tools:
            _, call = self.tools.popitem()
            self._close_call(call, now, unfinished=True)
        span = self.span
        if span.is_recording():
            span.set_attribute(names.STATUS, status)
            if code:
                span.set_attribute(names.ERROR_TYPE, code)
                span.set_status(StatusCode.ERROR, message or None)
        self._means.end(span, now)
        self._means.instruments.ended(_seconds(self.began, now), self.agent, code)

    def _start(
        self,
        operation: str,
        context: Context,
        at: int,
        told: dict[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        told[names.OPERATION] = operation
        name = operation
        if kind is SpanKind.CLIENT:
            told[names.PROVIDER] = self.provider
            if self.model and not self.elsewhere:
                told[names.REQUEST_MODEL] = self.model
                name = f"{operation} {self.model}"
        elif self.agent:
            told[names.AGENT] = self.agent
            name = f"{operation} {self.agent}"
        return self._means.tracer.start_span(name, context, kind, told, start_time=at)

    def _start_call(self, tool: str, at: int, told: dict[str, Any]) -> Span:
        told[names.OPERATION] = names.EXECUTE_TOOL
        told[names.TOOL_NAME] = tool
        told[names.TOOL_TYPE] = "function"
        if self.agent:
            told[names.AGENT] = self.agent
        return self._means.tracer.start_span(
            f"{names.EXECUTE_TOOL} {tool}", self.context, SpanKind.INTERNAL, told, start_time=at
        )

    def _late(self, now: int) -> None:
        """Make the spans of an answer whose begin was not reported."""
        self._plan = self._start(names.PLAN, self.context, self._mark, {})
        context = trace.set_span_in_context(self._plan, self.context)
        self._chat = self._start(names.CHAT, context, self._mark, {}, SpanKind.CLIENT)
        self._chat_began = self._mark

    def _close_answer(
        self,
        now: int,
        *,
        asked: str | None = None,
        model: str = "",
        error: str = "",
        unfinished: bool = False,
    ) -> None:
        if asked is None:
            asked = "" if self.elsewhere else self.model
        chat, plan = self._chat, self._plan
        self._chat = self._plan = None
        if chat is not None:
            first = _seconds(self._chat_began, self._first) if self._first else None
            if first is not None and chat.is_recording():
                chat.set_attributes({names.STREAM: True, names.FIRST_CHUNK: first})
            self._means.close(chat, now, error, unfinished)
            self._means.instruments.answered(
                _seconds(self._chat_began, now), first, self.provider, asked, model, error
            )
        self._first = 0
        if plan is not None:
            self._means.close(plan, now, error, unfinished)

    def _settle(self, call: Call, observation: Observation, now: int) -> None:
        error = self._means.redaction.name(observation.error)
        if self._means.capture and call.span.is_recording():
            said = observation.message if error else observation.output
            call.span.set_attribute(names.TOOL_RESULT, self._means.redaction.content(said))
        self._close_call(call, now, error)

    def _close_call(
        self, call: Call, now: int, error: str = "", *, unfinished: bool = False
    ) -> None:
        self._means.close(call.span, now, error, unfinished)
        self._means.instruments.called(_seconds(call.began, now), call.tool, self.agent, error)


def _seconds(began: int, ended: int) -> float:
    return max(ended - began, 0) / 1e9
