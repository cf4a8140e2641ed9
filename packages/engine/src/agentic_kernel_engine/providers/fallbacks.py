"""Fallbacks: the other models that a ready-made runtime asks after its own has failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel import InvalidValue

from .. import edges
from ..seams.middlewares.fallback import Fallback
from ..seams.planner import Planner
from . import failures as names
from .provider_planner import ProviderPlanner, Renaming

KINDS: Final = (
    *names.TRANSIENT, names.QUOTA, names.PERMISSION, names.MODEL_NOT_FOUND, names.CONTEXT_LENGTH,
)  # fmt: skip
"""The failures after which another model may answer. After a refusal, a bad option or a bad key, no
other model is asked."""


def fallbacks(planner: ProviderPlanner, given: Any) -> list[Any]:
    """Return the planners to ask after a planner, in their order.

    Args:
        planner: The planner of the runtime.
        given: Names of models, for planners like it, and other planners.

    Raises:
        InvalidValue: It is not a list of these, or the planner knows no other model.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidValue("fallback", f"is {edges.came(given)}; give a list of models")
    made: list[Any] = []
    for index, each in enumerate(given):
        path = f"fallback[{index}]"
        if not isinstance(each, str):
            try:
                made.append(edges.part(each, path, Planner))
            except InvalidValue as error:
                raise InvalidValue(path, f"{error.reason}; give a model, or a planner") from None
            continue
        renaming: Renaming | None = edges.optional(planner, "planner", Renaming)
        if renaming is None:
            raise InvalidValue(path, f"is a name, and the {planner.impl} runtime has one model")
        try:
            made.append(renaming.with_model(each))
        except InvalidValue as error:
            raise InvalidValue(path, error.reason) from error
    return made


def falling_back(planner: ProviderPlanner, planners: Sequence[Any]) -> Fallback:
    """Return the middleware that asks other planners after the failures of a planner."""
    return Fallback(*planners, codes=[f"{planner.impl}/{kind}" for kind in KINDS])
