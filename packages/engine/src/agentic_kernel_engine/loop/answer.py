"""Answer: the schema and the check of a run's final answer, and the message about a refused one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import InvalidValue

from .. import edges
from ..faults import shortened
from ..inputs import OUTPUT_SCHEMA
from ..plans.action import FinalAnswer
from ..plans.ending import End
from ..plans.observation import SCHEMA_VALIDATION_FAILED
from ..plans.reasons import StopReason
from ..plans.transcript import Transcript, Turn
from ..tools.output_type import OutputType
from ..tools.schema import Fit, Validator
from ..values import decode, encode

REFUSED: Final = 1_000
"""The most characters of the reason why the last answer was refused, in a failure."""
_LIMITS: Final = frozenset(
    {
        StopReason.MAX_ITERATIONS, StopReason.NO_PROGRESS, StopReason.LOOP, StopReason.TIMEOUT,
        StopReason.MAX_TOKENS, StopReason.MAX_COST, StopReason.MAX_FAILURES,
    }
)  # fmt: skip
"""The ends of a run that could have asked for the answer again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The form of a run's final answer."""

    schema: Mapping[str, Any] | None = None
    """The JSON Schema that the planner is shown; None if any answer fits."""
    fits: Fit | None = None
    """Returns why an answer does not fit, or None if it fits; None if any answer fits."""


def answer_of(
    schema: Mapping[str, Any] | None, output_type: OutputType[Any] | None, make: Validator
) -> Answer:
    """The form by a schema, and by the type whose schema it is if that type is known here.

    Raises:
        InvalidValue: The schema is not accepted.
    """
    fits: Fit | None = None
    if schema is not None:
        fits = edges.function(make(schema), "validator()")
    if output_type is not None:
        fits = output_type.problem if fits is None else _both(fits, output_type.problem)
    return Answer(schema, fits)


def schema_in(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema that a Task carries; None for text.

    Raises:
        InvalidValue: It is not a mapping.
    """
    held = metadata[OUTPUT_SCHEMA]
    if held is None:
        return None
    path = f"metadata[{OUTPUT_SCHEMA!r}]"
    if not isinstance(held, Mapping):
        raise InvalidValue(path, f"is {edges.came(held)}; give a JSON Schema as a mapping")
    copy: dict[str, Any] = decode(encode(held, path))
    return copy


def _both(first: Fit, second: Callable[[Any], str | None]) -> Fit:
    return lambda value: first(value) or second(value)


def tell_refused(transcript: Transcript, end: End) -> None:
    """Say at the end of a run at a limit that its last answer was refused, and why."""
    if end.reason not in _LIMITS:
        return
    turn = next((each for each in reversed(transcript) if isinstance(each, Turn)), None)
    if turn is None:
        return
    for action, observation in zip(turn.plan.actions, turn.observations, strict=False):
        if isinstance(action, FinalAnswer) and observation.error == SCHEMA_VALIDATION_FAILED:
            why = shortened(observation.message.removeprefix("the final answer: "), REFUSED)
            end.message = (
                f"the model's final answer was refused: {why}; change the instructions, the type "
                f"or the schema of the answer, or the model ({end.message})"
            )
            end.metadata = {**(end.metadata or {}), "answer_refused": why}
