"""Descriptions: what the OpenAPI document says of the fields of requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .errors import STATUS
from .executions.tables import ExecutionStatus

DATES: Final = frozenset({"created_at", "updated_at", "timestamp", "registered_at"})
"""Fields of answers that are moments, as RFC 3339 has them."""
FIELDS: Final[Mapping[str, str]] = {
    "after_sequence": "Only events after this one.",
    "agent_id": "The agent: 1 to 128 printable characters.",
    "arguments": "The arguments of the tool. A policy denies what is no object.",
    "capabilities": "Tools, or globs that fit tools, separated by commas.",
    "completed_at": "The end of the job, as the runner says. It is not stored.",
    "consumer_id": "The process among several of one agent or runner. A reconnect keeps it.",
    "cursor": "The `next_cursor` of the page before.",
    "data": "The result of the tool.",
    "description": "What the tool does, for a model.",
    "error": "The reason of a failure.",
    "execution_id": "The execution.",
    "id": "The id.",
    "idempotency_key": "A repeated request with this key takes effect once.",
    "input": "What the agent gets.",
    "input_schema": "The JSON Schema of the arguments.",
    "intent": "What the agent wants.",
    "job_id": "The `id` of `job.assigned`.",
    "label": "`key:value`; each one given has to fit.",
    "labels": "Labels for rules and lists.",
    "limit": "The size of a page.",
    "output": "The result of the execution, for `complete`.",
    "payload": "What the waiting agent gets.",
    "prefix": "Only the tool of this name, and those that go on with `.` or `_`.",
    "remote": "True if a runner is to run the tool; false if the agent runs it.",
    "retryable": "True if the failed job may be tried again.",
    "runner_id": "The runner.",
    "session_id": "The session, from `execution.assigned`.",
    "signal_type": "The type of the signal. `step.approve` resolves an approval.",
    "started_at": "The beginning of the job, as the runner says. It is not stored.",
    "status": "Only executions in this status.",
    "step_id": "The step.",
    "success": "False if the tool failed.",
    "timeout": "Seconds that the execution may take, over 0; by default the server's setting.",
    "tool_id": "The tool, for `invoke_tool`.",
    "tools": "The tools; they replace those of an earlier request.",
    "type": "What is wanted.",
}
"""The fields of requests, by name: a name means the same in every call."""
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ErrorBody.code": tuple(STATUS),
    "Execution.status": tuple(each.value for each in ExecutionStatus),
    "IntentBody.type": ("invoke_tool", "wait", "complete", "fail"),
}
"""The words that a field may have, by type and name."""
ANSWERS: Final = frozenset({"ErrorBody", "EventShape", "Execution", "ListedTool"})
"""Types of answers, whose fields mean other things."""
SCOPES_OF: Final[Mapping[str, str]] = {
    "/v0/executions/{id}/signal": "Needs the scope `client`, and `approver` for `step.approve`.",
    "/v0/tools": "Needs a credential of any scope.",
}
"""The scopes of calls that do not need just one."""
HEADS: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("POST", "/v0/executions"): {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Stands for `idempotency_key`, which goes first.",
        "schema": {"type": "string"},
    },
    ("GET", "/v0/executions/{id}/stream"): {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The last event that was read. It goes before `after_sequence`.",
        "schema": {"type": "string"},
    },
}
"""The heads of requests that a call reads."""


def described(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a type with descriptions, words and forms of its fields."""
    fields = schema.get("properties")
    if fields is None:
        return dict(schema)
    return {**schema, "properties": {field: of(name, field, fields[field]) for field in fields}}


def of(name: str, field: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of one field of a type."""
    made = dict(schema)
    if field in DATES:
        made["format"] = "date-time"
    if name not in ANSWERS and field in FIELDS:
        made["description"] = FIELDS[field]
    if words := WORDS.get(f"{name}.{field}"):
        made["enum"] = list(words)
    return made
