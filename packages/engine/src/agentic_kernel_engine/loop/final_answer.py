"""Final answer: its schema, its check, and the message about a refused one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import InvalidValue, Task

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


class AnswerForms:
    """The forms of the final answers of the Tasks that one substrate works on.

    Args:
        schema: The JSON Schema for Tasks that carry none; None if any answer fits.
        output_type: In place of the schema, the type that these answers must become.
        make: Makes the checks.

    Raises:
        InvalidValue: Both are given, the schema is not accepted, or the type has no JSON form.
    """

    def __init__(self, schema: Mapping[str, Any] | None, output_type: Any, make: Validator) -> None:
        if schema is not None and output_type is not None:
            raise InvalidValue("output_type", "stands beside output_schema; give one of them")
        self.output_type = None if output_type is None else OutputType[Any](output_type)
        """The type of the answers of Tasks that carry no schema."""
        self._make = make
        try:
            self._own = form_of(
                schema if self.output_type is None else self.output_type.schema,
                self.output_type,
                make,
            )
        except InvalidValue as error:
            named = error.path.startswith("schema")  # A validator of the user may name others.
            raise InvalidValue(f"output_{error.path}" if named else error.path, error.reason) from (
                error
            )
        self._expected: dict[str, OutputType[Any]] = {}

    def of(self, task: Task) -> Answer:
        """The form of a Task's final answer.

        Raises:
            InvalidValue: The schema that the Task carries is not accepted.
        """
        if OUTPUT_SCHEMA not in task.metadata:
            return self._own
        return form_of(schema_in(task.metadata), self._expected.get(task.id), self._make)

    def expect(self, task_id: str, wanted: OutputType[Any] | None) -> None:
        """Hold the answers of a Task that a caller in this process waits for to a type, beside the
        schema that the Task carries; None for the schema alone."""
        if wanted is None:
            self._expected.pop(task_id, None)
        else:
            self._expected[task_id] = wanted


def form_of(
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
