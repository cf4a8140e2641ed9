"""Jobs: the state of a remote step's Task, its events, and what can happen to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..executions.requests import DECISION

FORM: Final = "server-tool/1"
ASSIGNED: Final = "job.assigned"
"""A runner has the attempt. Data: ``attempt``, ``runner_id``, ``consumer_id``, ``job_id``."""
STARTED: Final = "job.started"
"""The runner began. Data: ``attempt``."""
RETRIED: Final = "job.retried"
"""The attempt failed and another follows. Data: ``attempt``, ``error``, ``delay``."""
TOOL_FAILED: Final = "server/tool_failed"
"""The code of a step whose tool failed."""
TIMED_OUT: Final = "server/step_timeout"
"""The code of a step that reached its deadline."""
INDETERMINATE: Final = "server/indeterminate"
"""The code of a step whose runner vanished, so that its effect is unknown."""


class Attempt(msgspec.Struct, omit_defaults=True):
    """The attempt that a runner has."""

    job: str
    runner: str
    consumer: str
    started: bool = False


class JobState(msgspec.Struct, omit_defaults=True):
    """The state of a remote step's Task."""

    number: int = 1
    """The number of the attempt."""
    attempt: Attempt | None = None
    not_before: float = 0.0
    """The moment before which the attempt must not begin, in seconds since 1970."""


class Began(msgspec.Struct, tag="began", tag_field="kind", omit_defaults=True):
    """A runner says that it began."""

    runner: str
    execution: str = ""
    """The execution that the runner names; empty from an older process."""


class Result(msgspec.Struct, tag="result", tag_field="kind", omit_defaults=True):
    """A runner reports the result of its job."""

    job: str
    success: bool
    data: Any = None
    error: str = ""
    retryable: bool = False
    runner: str = ""
    """The runner that reports; empty from an older process."""
    consumer: str = ""
    """The consumer that the runner names; empty if it names none."""
    execution: str = ""
    """The execution that the runner names; empty from an older process."""


class Return(msgspec.Struct, tag="return", tag_field="kind"):
    """Another process has the runner's stream now, and takes the job."""

    consumer: str


class RunnerLost(msgspec.Struct):
    """The grace of a runner without a stream is over."""

    consumer: str


Sent = Began | Result | Return
JobRequest = Sent | RunnerLost


def to_decision(request: Sent, id: str) -> dict[str, Any]:
    """The decision that carries a request to another process."""
    return {"type": DECISION, "request": id, "body": msgspec.to_builtins(request)}


def from_decision(entry: Mapping[str, Any]) -> Sent | None:
    """The request that a decision carries; None if it carries none."""
    if entry.get("type") != DECISION:
        return None
    try:
        plain = msgspec.json.decode(msgspec.json.encode(entry["body"]))
        found: Sent = msgspec.convert(plain, Sent)
    except (KeyError, ValueError):
        return None
    return found


_from_text = msgspec.json.Decoder(JobState).decode


def decoded(text: bytes | None) -> JobState | None:
    """The state in a record; None if it has none yet."""
    return None if text is None else _from_text(text)
