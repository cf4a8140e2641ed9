"""OTelObserver: exports Tasks as traces, metrics and logs of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from time import time_ns as now
from typing import Any

import msgspec
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry._logs import LoggerProvider, get_logger
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import TracerProvider

from agentic_kernel_engine import Event, Substrate
from agentic_kernel_engine import events as host_events
from agentic_kernel_engine.loop import Observation, Plan
from agentic_kernel_engine.plans import vocabulary

from . import conventions as names
from .forms import redacted
from .instruments import Instruments
from .means import Means
from .middleware import TracingMiddleware
from .moments import Moments
from .propagation import written
from .redaction import Redact, Redaction
from .substrate import TracedSubstrate
from .tracing import LOST, Tracing


class OTelObserver:
    """Reports every Task that a Host runs or changes to OpenTelemetry.

    Each run of a Task is a span, with the decisions of the planner and the calls of tools below it.
    All runs of a Task are in one trace, each with a link to the run before. A child has a trace of
    its own, with a link to its parent. The README lists all metrics, logs and attributes.

    Give it to the Host as its observer. It can do more with two additions. `traced` around the
    substrate makes the trace current in the run and passes it on with the Task from process to
    process. `middleware` in a `Loop` reports when calls begin and end.

        otel = OTelObserver()
        loop = Loop(planner, tools, middleware=[otel.middleware])
        host = Host(otel.traced(loop), store, observer=otel)

    Its own faults, and those of a span processor or exporter, never fail a run. Spans end on the
    Host's thread, so export them in batches: the SDK's ``BatchSpanProcessor`` does not wait for the
    backend, but its ``SimpleSpanProcessor`` waits for every export.

    Args:
        tracer_provider: Creates the spans; None for the global one, as for the next two.
        meter_provider: Creates the metrics.
        logger_provider: Creates the log records.
        provider: The provider of the models, as ``gen_ai.provider.name``; None for the provider of
            the Task's runtime kind.
        capture_content: True to record the inputs and outputs of models and tools.
        redact: Removes secrets from a text.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        provider: str | None = None,
        capture_content: bool = False,
        redact: Redact = redacted,
    ) -> None:
        self._redaction = Redaction(redact)
        self._capture = capture_content
        self._instruments = Instruments(get_meter(names.SCOPE, meter_provider=meter_provider))
        tracer = trace.get_tracer(names.SCOPE, tracer_provider=tracer_provider)
        means = Means(tracer, self._instruments, self._redaction, capture_content)
        self._tracing = Tracing(means, provider)
        logger = get_logger(names.SCOPE, logger_provider=logger_provider)
        self._moments = Moments(logger, self._redaction, capture_content)
        self.middleware = TracingMiddleware(self._tracing)
        """The last middleware of a `Loop`: it reports when calls of models and tools begin and
        end, and makes their spans current in them."""
        self._handlers: dict[str, Callable[[str, Event, int], None]] = {
            host_events.TASK_DISPATCHED: self._dispatched,
            host_events.TASK_CLAIMED: self._went_on,
            host_events.TASK_RESUMED: self._went_on,
            host_events.TASK_PAUSE_REQUESTED: self._asked,
            host_events.TASK_PAUSE_WITHDRAWN: self._asked,
            host_events.TASK_DECISION_POSTED: self._asked,
            host_events.TASK_PAUSED: self._paused,
            host_events.TASK_RELEASED: self._released,
            host_events.TASK_COMPLETED: self._completed,
            host_events.TASK_FAILED: self._failed,
            host_events.TASK_KILLED: self._killed,
            host_events.RUN_BEGUN: self._begun,
            host_events.RUN_DELTA: self._piece,
            host_events.RUN_TURN: _nothing,
            vocabulary.PLAN_MADE: self._planned,
            vocabulary.PLAN_FAILED: self._plan_failed,
            vocabulary.PLAN_DECIDED: self._decided,
            vocabulary.EFFECTS_PREPARED: self._prepared,
            vocabulary.STEP_OBSERVED: self._observed,
            vocabulary.CHILD_SPAWNED: self._spawned,
            vocabulary.RUN_CUT: self._cut,
            vocabulary.RUN_WAITS: self._waits,
            vocabulary.RUN_STOPPED: self._stopped,
        }

    def observe(self, task_id: str, event: Event) -> None:
        handler = self._handlers.get(event.type)
        if handler is None:
            self._tell(task_id, event, now())
        else:
            handler(task_id, event, now())

    def traced(self, substrate: Substrate) -> TracedSubstrate:
        """Return the substrate with each Task's trace current in its runs."""
        return TracedSubstrate(substrate, self._tracing)

    def traceparent(self, task_id: str) -> str | None:
        """Return the ``traceparent`` of a Task's current run; None if the Task does not run here.

        Pass it to other services that work for the Task. In the run itself its context is current.
        """
        spans = self._tracing.running(task_id, now())
        return None if spans is None else written(spans.span.get_span_context()) or None

    def _dispatched(self, task_id: str, event: Event, at: int) -> None:
        trail = self._tracing.trails.of(task_id)
        self._tracing.end(trail, at, LOST)
        trail.began = at
        trail.caller = contexts.get_current()
        self._instruments.entered("running")

    def _went_on(self, task_id: str, event: Event, at: int) -> None:
        trail = self._tracing.trails.of(task_id)
        self._tracing.end(trail, at, LOST)
        trail.began, trail.by, trail.asked = at, event.data.get("by"), None
        if event.type == host_events.TASK_RESUMED:
            self._instruments.entered("running")
        self._moments.tell(task_id, event, None, at)

    def _asked(self, task_id: str, event: Event, at: int) -> None:
        """Handle a request to a run; the request does not show that a run exists here."""
        trail = self._tracing.trails.of(task_id)
        if event.type != host_events.TASK_DECISION_POSTED:
            trail.asked = event.at if event.type == host_events.TASK_PAUSE_REQUESTED else None
        self._moments.tell(task_id, event, trail.spans, at)

    def _paused(self, task_id: str, event: Event, at: int) -> None:
        self._tell(task_id, event, at)
        trail = self._tracing.trails.of(task_id)
        asked, trail.asked = trail.asked, None
        if asked is None and event.data.get("reason") == "requested":
            asked = event.at
        self._tracing.end(trail, at, "paused")
        if asked is not None:
            self._instruments.paused(_since(asked, at))
        self._instruments.entered("paused")

    def _released(self, task_id: str, event: Event, at: int) -> None:
        self._tell(task_id, event, at)
        trail = self._tracing.trails.get(task_id)
        if trail is not None:
            self._tracing.end(trail, at, "running")

    def _completed(self, task_id: str, event: Event, at: int) -> None:
        self._over(task_id, event, at, "success")

    def _failed(self, task_id: str, event: Event, at: int) -> None:
        code = self._redaction.name(event.data.get("code")) or names.OTHER
        message = self._redaction.line(event.data.get("message")) if self._capture else ""
        self._over(task_id, event, at, "failure", code, message)

    def _killed(self, task_id: str, event: Event, at: int) -> None:
        self._over(task_id, event, at, "cancelled")
        if event.at is not None:
            self._instruments.killed(_since(event.at, at))

    def _over(
        self, task_id: str, event: Event, at: int, status: str, code: str = "", message: str = ""
    ) -> None:
        self._tell(task_id, event, at)
        trail = self._tracing.trails.drop(task_id)
        if trail is not None and trail.spans is not None:
            self._tracing.end(trail, at, status, code, message)
        elif code:
            self._instruments.failed(names.INVOKE_AGENT, code)
        self._instruments.entered(status)

    def _begun(self, task_id: str, event: Event, at: int) -> None:
        agent = self._redaction.name(event.data.get("agent"))
        spans = self._tracing.running(task_id, at, agent=agent)
        if spans is not None:
            spans.named(agent, self._redaction.name(event.data.get("model")))

    def _piece(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        if spans is not None:
            spans.piece(at)

    def _planned(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        if spans is not None:
            plan = None if spans.timed else _read(event.data, Plan)
            if plan is not None:
                spans.answered(plan, at)
            spans.mark(at)

    def _plan_failed(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        self._moments.tell(task_id, event, spans, at)
        if spans is None:
            return
        then = event.data.get("then")
        if then == "fail":
            spans.not_answered(self._redaction.name(event.data.get("code")), at)
        elif then != "retry" and not spans.timed:
            spans.elsewhere = True

    def _decided(self, task_id: str, event: Event, at: int) -> None:
        """Record the verdicts, unless the policy allowed every action."""
        decisions = event.data.get("decisions")
        if isinstance(decisions, (list, tuple)) and all(
            isinstance(each, dict) and each.get("verdict") == "allow" for each in decisions
        ):
            return
        self._tell(task_id, event, at)

    def _prepared(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        if spans is not None:
            spans.mark(at)

    def _observed(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        if spans is not None:
            observations = None
            if spans.tools or not spans.timed:
                observations = _read(event.data.get("observations"), list[Observation])
            spans.observed(observations or (), at)

    def _spawned(self, task_id: str, event: Event, at: int) -> None:
        spans, child = self._tracing.running(task_id, at), event.data.get("child")
        self._moments.tell(task_id, event, spans, at)
        if spans is not None and isinstance(child, str):
            self._tracing.trails.of(child).parent = spans.span.get_span_context()

    def _cut(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        self._moments.tell(task_id, event, spans, at)
        if spans is not None:
            spans.cut(at)

    def _waits(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        self._moments.tell(task_id, event, spans, at)
        if spans is not None:
            kind = self._redaction.name(event.data.get("kind"))
            spans.span.set_attribute(names.WAITING_FOR, kind)

    def _stopped(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at)
        if spans is None or not spans.span.is_recording():
            return
        told: dict[str, Any] = {names.STOP_REASON: self._redaction.name(event.data.get("reason"))}
        if isinstance(event.data.get("steps"), int):
            told[names.STEPS] = event.data["steps"]
        usage = event.data.get("usage")
        for key, name in (
            ("input_tokens", names.INPUT_TOKENS),
            ("output_tokens", names.OUTPUT_TOKENS),
        ):
            if isinstance(usage, dict) and isinstance(usage.get(key), int):
                told[name] = usage[key]
        spans.span.set_attributes(told)

    def _tell(self, task_id: str, event: Event, at: int) -> None:
        spans = self._tracing.running(task_id, at, event.data.get("by"))
        self._moments.tell(task_id, event, spans, at)


def _nothing(task_id: str, event: Event, at: int) -> None:
    """Ignore an event whose content other events report."""


def _read(data: Any, kind: Any) -> Any:
    """Return a part of an event's data as the engine's type; None if it does not fit the type."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None


def _since(moment: datetime, at: int) -> float:
    """Return the seconds since a moment, which is by the Host's clock."""
    return max(at / 1e9 - moment.astimezone(UTC).timestamp(), 0.0)
