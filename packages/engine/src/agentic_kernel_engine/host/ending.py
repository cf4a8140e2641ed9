"""Ending: the mutation that follows from a substrate's result, exception or cancellation.

A bad result or a strange exception becomes a failure here and is never raised, because the Task
must end (R21).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agentic_kernel import Complete, Fail, Failure, InvalidValue, Mutation

from .. import edges, values
from ..errors import StoreError, TaskFailed
from ..faults import (
    MAX_MESSAGE,
    Stray,
    is_a,
    kind_of,
    origin,
    place_of,
    reraise_cancellation,
    shortened,
    text_of,
)


def exhausted(attempts: int) -> Fail:
    """The failure of a Task after this many of its runs in a row ended without progress.

    The count tells nothing about the reason, so the message names each possible one.
    """
    failure = Failure(
        "engine/attempts_exhausted",
        f"max_attempts {attempts}: {attempts} runs in a row ended without progress. Each time the "
        "process died, the run was cancelled from outside, or the store failed; the logs of the "
        "Hosts say which. Mend the store, or the work that ends its workers; then dispatch the "
        "work again as a new Task",
        {"attempts": attempts},
    )
    return Fail(failure)


def unstorable() -> Fail:
    """The failure that replaces an end that cannot be stored; it is always the same."""
    failure = Failure(
        "engine/unstorable_end",
        "the run ended, but its end cannot be stored: its result or failure, its notes and its "
        "events since the last commit are lost. The log of the process that ran it says why",
    )
    return Fail(failure)


def fault_of(root: asyncio.Task[Any]) -> BaseException | None:
    """The exception that ended a run's root task; None for a result and for a cancellation."""
    if root.cancelled():
        return None
    fault = root.exception()
    if fault is None:
        result = root.result()
        return origin(result) if type(result) is Stray else None
    return origin(fault)


def mutation_of(
    root: asyncio.Task[Any], fault: BaseException | None, notes: Mapping[str, Any]
) -> Mutation:
    """The mutation that ends the Task of this root task; the fault is that of `fault_of`."""
    if root.cancelled():
        return Fail(Failure("engine/cancelled", "the substrate cancelled itself"), notes=notes)
    try:
        if fault is None:
            result = root.result()
            values.encode(result, "result")
            return Complete(result, notes=notes)
        if is_a(fault, TaskFailed):
            return Fail(_failure(fault), notes=notes)
    except InvalidValue as invalid:
        return Fail(Failure("engine/bad_result", text_of(invalid)), notes=notes)
    except BaseException as odd:
        reraise_cancellation(odd)
        fault = odd
    if is_a(fault, StoreError):
        said = Failure("engine/store_error", f"the store failed: {text_of(fault)}")
        return Fail(said, notes=notes)
    kind, text = kind_of(fault), text_of(fault)
    metadata = {"type": kind, "message": text, **place_of(fault)}
    said = Failure("engine/unhandled_error", f"the substrate raised {kind}: {text}", metadata)
    return Fail(said, notes=notes)


def _failure(fault: TaskFailed) -> Failure:
    """The failure that a substrate asked for by `TaskFailed`.

    Raises:
        InvalidValue: Its code, message or metadata may not be stored.
    """
    for name in ("code", "message"):
        edges.text(getattr(fault, name), name)
    if len(fault.code) > values.MAX_ID:
        raise InvalidValue("code", f"has {len(fault.code):,} characters; use 1 to {values.MAX_ID}")
    values.encode(fault.metadata, "metadata")
    return Failure(fault.code, shortened(fault.message, MAX_MESSAGE), fault.metadata or {})
