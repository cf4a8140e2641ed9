"""What becomes of a Task whose substrate is done, one way or another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agentic_kernel import Complete, Fail, Failure, InvalidValue, Mutation

from . import values
from .errors import StoreError, TaskFailed

_DETAIL = 2_000
"""How much of an unexpected exception's text goes into a Failure, in characters."""


def exhausted(attempts: int) -> Fail:
    """What becomes of a Task of which so many runs died."""
    failure = Failure(
        "engine/attempts_exhausted",
        f"{attempts} runs in a row died before they got any further; the Task may be what ends "
        "its workers. Look at why they died, then dispatch its work again as a new Task",
        {"attempts": attempts},
    )
    return Fail(failure)


def mutation_of(root: asyncio.Task[Any], notes: Mapping[str, Any]) -> Mutation:
    """The mutation that a substrate's return, error or self-cancellation stands for."""
    if root.cancelled():
        return Fail(Failure("engine/cancelled", "the substrate cancelled itself"), notes=notes)
    fault = root.exception()
    try:
        if isinstance(fault, TaskFailed):
            values.check_text(fault.code, "code")
            values.check_text(fault.message, "message")
            values.encode(fault.metadata, "metadata")
            failure = Failure(fault.code, fault.message, fault.metadata or {})
            return Fail(failure, notes=notes)
        if fault is None:
            result = root.result()
            values.encode(result, "result")
            return Complete(result, notes=notes)
    except InvalidValue as invalid:
        return Fail(Failure("engine/bad_result", str(invalid)), notes=notes)
    except Exception as odd:
        fault = odd
    if isinstance(fault, StoreError):
        said = Failure("engine/store_error", f"the store failed: {_storable(fault)}")
        return Fail(said, notes=notes)
    kind = type(fault).__name__
    text = _storable(fault)
    return Fail(
        Failure(
            "engine/unhandled_error",
            f"the substrate raised {kind}: {text}",
            {"type": kind, "message": text},
        ),
        notes=notes,
    )


def _storable(fault: BaseException | None) -> str:
    text = str(fault)[:_DETAIL].replace("\0", "\\0")
    return text.encode(errors="backslashreplace").decode()
