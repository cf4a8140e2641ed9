"""Wire: the bodies and the queries of every call, as they are sent."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from agentic_kernel import InvalidValue
from agentic_kernel_engine.values import check

LEVELS: Final = 120
"""The most levels of lists and objects in a value; the events that hold it add some."""


def check_body(body: msgspec.Struct) -> None:
    """Refuse a body with a value that cannot be stored and read back unchanged.

    Raises:
        InvalidValue: A text holds NUL, a whole number has over 64 bits, or a value is nested deeper
            than `LEVELS`; the message names the field.
    """
    for name in body.__struct_fields__:
        value = getattr(body, name)
        parts = value if isinstance(value, list) else [value]
        if parts and isinstance(parts[0], msgspec.Struct):
            for part in parts:
                check_body(part)
            continue
        check(value, name)
        if _levels(value) > LEVELS:
            raise InvalidValue(name, f"is nested deeper than {LEVELS} levels; make it flatter")


def _levels(value: Any) -> int:
    levels, layer = 0, [value]
    while containers := [each for each in layer if type(each) in (list, dict)]:
        levels += 1
        layer = [
            part for each in containers for part in (each if type(each) is list else each.values())
        ]
    return levels


def _readable(error: str | None) -> str | None:
    """The text of a failure without NUL: a failure is recorded whatever its text holds."""
    return error.replace("\0", "\N{REPLACEMENT CHARACTER}") if error else error


class CreateExecution(msgspec.Struct):
    """The body of ``POST /v0/executions``."""

    agent_id: str
    input: Any = None
    labels: dict[str, str] | None = None
    idempotency_key: str = ""
    """A second request with the same key creates nothing and returns the same execution."""
    timeout: float | None = None
    """Seconds that the execution may take; None for the server's setting."""


class SignalBody(msgspec.Struct):
    """The body of ``POST /v0/executions/{id}/signal``."""

    signal_type: str
    payload: Any = None


class IntentBody(msgspec.Struct):
    """One intent of an agent."""

    type: str
    """``invoke_tool``, ``complete``, ``fail`` or ``wait``."""
    tool_id: str = ""
    arguments: Any = None
    idempotency_key: str = ""
    signal_type: str = ""
    output: Any = None
    error: str | None = ""
    remote: bool = False

    def __post_init__(self) -> None:
        self.error = _readable(self.error)


class SubmitIntent(msgspec.Struct):
    """The body of ``POST /v0/agents/intent``."""

    execution_id: str
    session_id: str
    intent: IntentBody


class StepResultBody(msgspec.Struct):
    """The body of ``POST /v0/agents/step-result``."""

    execution_id: str
    session_id: str
    step_id: str
    success: bool
    data: Any = None
    error: str | None = ""

    def __post_init__(self) -> None:
        self.error = _readable(self.error)


class JobResultBody(msgspec.Struct):
    """The body of ``POST /v0/runners/{id}/results``."""

    job_id: str
    execution_id: str
    step_id: str
    success: bool
    consumer_id: str = ""
    data: Any = None
    error: str | None = ""
    retryable: bool = False
    started_at: str | None = None
    completed_at: str | None = None

    def __post_init__(self) -> None:
        self.error = _readable(self.error)


class StepStartedBody(msgspec.Struct):
    """The body of ``POST /v0/runners/steps/{id}/started``."""

    execution_id: str
    runner_id: str


class CapabilitiesBody(msgspec.Struct):
    """The body of ``POST /v0/runners/{id}/capabilities``: tools, or globs that fit tools."""

    tools: list[str]


class ToolSchema(msgspec.Struct):
    """One tool that a runner publishes."""

    id: str
    description: str = ""
    input_schema: dict[str, Any] | None = None


class PublishTools(msgspec.Struct):
    """The body of ``POST /v0/runners/{id}/tools``; it replaces what was published before."""

    tools: list[ToolSchema]


class ListQuery(msgspec.Struct):
    """The query of ``GET /v0/executions``."""

    status: str = ""
    agent_id: str = ""
    label: list[str] = []
    """``key:value``, repeated."""
    cursor: str = ""
    limit: int = 50


class EventsQuery(msgspec.Struct):
    """The query of ``GET /v0/executions/{id}/events``."""

    after_sequence: int = 0
    limit: int = 100


class AfterQuery(msgspec.Struct):
    """The query of ``GET /v0/executions/{id}/stream``."""

    after_sequence: int | None = None


class AgentQuery(msgspec.Struct):
    """The query of ``GET /v0/agents/stream``."""

    agent_id: str
    consumer_id: str


class RunnerQuery(msgspec.Struct):
    """The query of ``GET /v0/runners/stream``."""

    runner_id: str
    consumer_id: str
    capabilities: str = ""
    """Tools, or globs that fit tools, separated by commas."""


class ToolsQuery(msgspec.Struct):
    """The query of ``GET /v0/tools``."""

    prefix: str = ""


class Execution(msgspec.Struct, omit_defaults=True):
    """An execution."""

    id: str
    status: str
    agent_id: str
    labels: dict[str, str]
    created_at: str
    updated_at: str
    input: Any = UNSET
    output: Any = UNSET
    error: str | UnsetType = UNSET
    """The message of its failure."""


class ExecutionList(msgspec.Struct):
    """One page of executions, without their input and output."""

    executions: list[Execution]
    next_cursor: str = ""


class EventShape(msgspec.Struct, omit_defaults=True):
    """An event of an execution."""

    id: str
    execution_id: str
    type: str
    schema_version: int
    timestamp: str
    payload: Any
    sequence: int
    step_id: str = ""
    idempotency_key: str = ""


class EventList(msgspec.Struct):
    """One page of events."""

    events: list[EventShape]
    latest_sequence: int


class IntentAnswer(msgspec.Struct, omit_defaults=True):
    """The answer to an intent."""

    accepted: bool
    step_id: str = ""
    pending_approval: bool = False
    error: str = ""


class StatusAnswer(msgspec.Struct):
    """An answer with a status only."""

    status: str


class AcceptedAnswer(msgspec.Struct):
    """An answer that a report was accepted."""

    accepted: bool


class PublishedAnswer(msgspec.Struct):
    """The number of tools that a runner has published."""

    published: int


class ListedTool(msgspec.Struct):
    """A tool that a runner published."""

    id: str
    description: str
    input_schema: dict[str, Any]
    runner_id: str
    registered_at: str


class ErrorBody(msgspec.Struct):
    """The body of every error."""

    error: str
    code: str
    details: dict[str, Any]
