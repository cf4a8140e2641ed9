"""Conventions: all names of spans, attributes and metrics that a backend sees.

Names that begin with ``gen_ai`` are OpenTelemetry's semantic conventions for generative AI, from
their own repository in autumn 2026. They are still in development: if they change, this module
changes. Names that begin with ``agentic_kernel`` are our own; the conventions have none for them.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "agentic_kernel_otel"
"""The instrumentation scope."""

INVOKE_AGENT: Final = "invoke_agent"
"""Span of one run of a Task, `INTERNAL`; the parent of the other spans."""
PLAN: Final = "plan"
"""Span of one decision of the planner, `INTERNAL`."""
CHAT: Final = "chat"
"""Span of the call of a model for that decision, `CLIENT`; the child of a `PLAN`."""
EXECUTE_TOOL: Final = "execute_tool"
"""Span of one call of a tool, `INTERNAL`."""

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""Seconds."""
STREAM: Final = "gen_ai.request.stream"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"
OTHER: Final = "_OTHER"
"""Value of a label that already has too many different values."""

INPUT_MESSAGES: Final = "gen_ai.input.messages"
"""This attribute and the next three are content: recorded only with ``capture_content``."""
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

TASK: Final = "agentic_kernel.task.id"
KIND: Final = "agentic_kernel.task.kind"
"""The Task's runtime kind."""
STATUS: Final = "agentic_kernel.task.status"
"""The Task's status after the run."""
STEP: Final = "agentic_kernel.step"
"""Number of steps before this one."""
STEPS: Final = "agentic_kernel.steps"
STOP_REASON: Final = "agentic_kernel.stop_reason"
WAITING_FOR: Final = "agentic_kernel.waiting_for"
"""``approval``, ``question`` or ``schedule``."""
EFFECT: Final = "agentic_kernel.tool.effect"
COST: Final = "agentic_kernel.usage.cost"
LINK: Final = "agentic_kernel.link"
"""Kind of a link: ``earlier`` to the run before, ``parent`` to the Task that delegated."""
UNFINISHED: Final = "agentic_kernel.unfinished"
"""True if the span ended before its work did, e.g. because the run ended."""
EVENT: Final = "agentic_kernel."
"""Prefix of the names of span events and log records; the type of the event follows."""
VERDICTS: Final = "agentic_kernel.verdicts"
"""The policy's verdicts, in the order of the actions."""
EVENT_DATA: Final = "agentic_kernel.event.data"
"""All data of an event, as JSON; it is content."""

TOKEN_USAGE: Final = "gen_ai.client.token.usage"
CHAT_DURATION: Final = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
FAILURES: Final = "agentic_kernel.failures"
"""Number of failures, by operation and code."""
PAUSE_DURATION: Final = "agentic_kernel.pause.duration"
KILL_DURATION: Final = "agentic_kernel.kill.duration"
ENTERED: Final = "agentic_kernel.tasks"
"""Number of Tasks, by the status that they entered."""
RUNNING: Final = "agentic_kernel.tasks.running"

TOKEN_BUCKETS: Final = tuple(4.0**power for power in range(14))
CALL_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Seconds, for calls of models and tools, and for the time to the first chunk."""
AGENT_BUCKETS: Final = tuple(0.1 * 2**power for power in range(13))
LATENCY_BUCKETS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Seconds, for pauses and kills."""

_PROVIDERS: Final = {"claude": "anthropic"}


def provider_of(kind: str) -> str:
    """Return the conventions' name of a runtime kind's provider; the kind itself by default."""
    return _PROVIDERS.get(kind, kind)
