"""Stream events: a streamed response up to its next piece, and after the end of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from ..plans.plan import Delta
from .patience import Patience
from .reader import Reader
from .transport import Responses

REST_SECONDS: Final = 0.1
"""Seconds to read the rest of a response after the end of its answer: only a response that was read
to its end leaves its connection for the next call."""
USAGE_SECONDS: Final = 2.0
"""The most seconds that the usage may come after the end of a streamed answer."""
_END: Final = object()


async def next_pieces(
    response: Any, reader: Reader, opened: list[Any], *, begun: bool
) -> Iterable[Delta] | None:
    """Read events until one has a piece of the answer; return its pieces, or None at the end.

    An event also counts if it is the first to tell the usage of the answer: it has no pieces then.

    Args:
        opened: Collects the HTTP responses, if the SDK sends its request only here.
        begun: True if that usage is known already.
    """
    while not (reader.done or reader.ended):
        if opened:
            event = await anext(response, _END)
        else:
            with Responses(opened):
                event = await anext(response, _END)
        if event is _END:
            return None
        pieces = iter(reader.read(event))
        first = next(pieces, None)
        if first is not None:
            return chain((first,), pieces)
        if not begun and reader.begun() is not None:
            return ()
    return None


async def read_rest(response: Any, reader: Reader, patience: Patience) -> None:
    """Read the rest of a stream for at most `REST_SECONDS`; ignore errors of the connection."""
    event: Any = _END
    with suppress(Exception):
        event = await patience.wait(REST_SECONDS, anext(response, _END))
    if event is not _END:
        reader.after(event)


async def read_usage(response: Any, reader: Reader, patience: Patience) -> None:
    """Read the rest of a stream whose answer has ended, because its usage may follow.

    A server may send neither its usage nor the end of the stream.

    Raises:
        TimeoutError: The usage did not come within `USAGE_SECONDS`, or the end of the stream within
            `REST_SECONDS` after that.
    """
    if reader.count is None:
        await patience.wait(
            USAGE_SECONDS, _after(response, reader, lambda: reader.count is not None)
        )
    await patience.wait(REST_SECONDS, _after(response, reader, lambda: False))


async def _after(response: Any, reader: Reader, is_enough: Callable[[], bool]) -> None:
    """Read the events after the end of an answer."""
    while not is_enough() and (event := await anext(response, _END)) is not _END:
        reader.after(event)
