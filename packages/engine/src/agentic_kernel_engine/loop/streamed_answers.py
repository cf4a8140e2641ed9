"""Streamed answers: a planner's stream, read until its plan, a pause or the run's deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from .. import edges, values
from ..plans import vocabulary
from ..plans.ending import PlannerError
from ..plans.limits import check_usage
from ..plans.plan import LARGEST, Delta
from ..plans.reasons import StopReason
from ..tools.deadline import BoundedStream, DeadlinePassed
from . import retries
from .bad_answers import WANTED, bad_plan, kind_of_value
from .run import LoopRun
from .streams import Stream, TurnText

LENGTH: Final = 4_000_000
"""The most bytes of JSON of the pieces of one answer; a longer answer is taken to be endless. A
piece without text counts as one byte."""
INTERRUPTED: Final = object()
"""The result of a stream that a pause interrupted, if the pause was withdrawn then."""
_encode = msgspec.json.Encoder().encode


async def streamed(run: LoopRun, pieces: AsyncIterator[Any]) -> Any:
    """The last piece of a stream; the other pieces are emitted as they come.

    A pause that waits ends the stream at its next piece: the text so far is kept, for a planner
    that can continue it. If the pause is withdrawn meanwhile, the result is `INTERRUPTED`.

    Raises:
        End: The run's time is over before the plan; the stream was ended.
    """
    if run.turn_text is None:
        run.turn_text = TurnText(run.job)
    job, stream = run.job, Stream(run.turn_text, run.state.said)
    length = len(_encode(run.state.said))
    if run.limits.max_seconds is not None:
        pieces = BoundedStream(pieces, run, f"a planner's stream for task {run.task.id}")
    try:
        async for piece in pieces:
            if not isinstance(piece, Delta):
                return piece
            if piece.usage is not None:
                check_usage(piece.usage, "engine/bad_plan")
                run.known = piece.usage
            try:
                length += max(_length(piece), 1)
                if length <= LENGTH and (piece.text or piece.usage is None):
                    stream.tell(piece)
            except InvalidValue as error:
                raise bad_plan(f"the planner's stream gave a bad Delta: {error}") from error
            if length > LENGTH:
                raise PlannerError(
                    "engine/endless_answer",
                    f"no end after {LENGTH:,} bytes of JSON; lower the planner's limit of "
                    "output tokens",
                )
            if run.out_of_time:
                record_cut(run, stream.text)
                raise run.end_at(StopReason.TIMEOUT)
            if job.stopping:
                run.state.said = record_cut(run, stream.text)
                await run.checkpoint()
                return INTERRUPTED
    except DeadlinePassed:
        record_cut(run, stream.text)
        raise run.end_at(StopReason.TIMEOUT) from None
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    raise bad_plan(f"the planner's stream ended without a plan; {WANTED}")


def record_cut(run: LoopRun, text: str) -> str:
    """Record and return the text so far, and count the usage of the call."""
    run.record(vocabulary.RUN_CUT, text=text, **retries.count(run, run.known))
    return text


def _length(piece: Delta) -> int:
    """The length of a piece in bytes of JSON.

    Raises:
        InvalidValue: A part of it is not text, or cannot be stored.
    """
    for name in ("text", "channel"):
        text = getattr(piece, name)
        if type(text) is not str:
            raise InvalidValue(f"Delta.{name}", f"is a {kind_of_value(text)}; give a string")
        if text and not (text.isascii() and "\0" not in text):
            values.check_text(text, f"Delta.{name}")
    if piece.at is not None:
        edges.whole(piece.at, "Delta.at", 0, LARGEST)
    return len(_encode(piece.text)) - 2
