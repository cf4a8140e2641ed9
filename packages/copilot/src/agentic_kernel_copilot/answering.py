"""Answering: the form of a session's final answer, and the treatment of one that does not fit."""

from __future__ import annotations

from typing import Any, Final

from agentic_kernel_engine.loop import (
    SCHEMA_VALIDATION_FAILED,
    Answer,
    FinalAnswer,
    Observation,
    Plan,
)
from agentic_kernel_engine.providers import final_answer, in_words, is_strict

_REFUSED: Final = "The final answer was refused: {}. Give it again."


class FinalForm:
    """The JSON Schema and the type that the final answer of a Task must fit.

    Args:
        answer: The schema, and the check of an answer; None if any answer fits.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer or Answer()

    @property
    def sent(self) -> dict[str, Any] | None:
        """The schema for the CLI, which asks the provider to enforce it strictly; None for none."""
        schema = self._answer.schema
        return dict(schema) if schema is not None and is_strict(schema) else None

    @property
    def told(self) -> str:
        """The instruction with a schema that cannot be enforced; "" if there is none."""
        schema = self._answer.schema
        if schema is None or is_strict(schema):
            return ""
        return in_words(schema)

    def action(self, text: str) -> FinalAnswer:
        """The final answer in a text of the model."""
        return final_answer(text, self._answer.schema)

    def fault(self, action: FinalAnswer) -> str:
        """The reason why an answer is refused; "" if it fits."""
        fits = self._answer.fits
        fault = None if fits is None else fits(action.output)
        return "" if fault is None else action.refused or fault

    def observed(self, plan: Plan) -> Observation:
        """The observation of a turn without calls."""
        answer = plan.actions[0]
        fault = self.fault(answer) if isinstance(answer, FinalAnswer) else ""
        if not fault:
            return Observation()
        message = f"the final answer: {fault}"
        return Observation(error=SCHEMA_VALIDATION_FAILED, message=message)


def refusal(fault: str) -> str:
    """The message to a session whose answer is refused for this reason."""
    return _REFUSED.format(fault.rstrip("."))
