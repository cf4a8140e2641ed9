"""EventId: the id of a durable event, which is also the cursor after that event."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, Self

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

_TEXT: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(-1|0|[1-9][0-9]{0,18})", re.ASCII)


class EventId(NamedTuple):
    """The id of a durable event, and the cursor after it (R15).

    It is a tuple: it equals ``(version, place)``, sorts like it, and is stored like it. Its text is
    ``version.place``, such as ``3.1``.
    """

    version: int
    """The commit that wrote the event: the record's version after it."""
    place: int
    """The place of the event in that commit, from 0; -1 in a cursor before the first place."""

    def __str__(self) -> str:
        return f"{self.version}.{self.place}"

    @classmethod
    def parse(cls, text: Any) -> Self:
        """The id with this text; ``str`` of the result is the same text again.

        Raises:
            InvalidValue: It is not the text of an id.
        """
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidValue(
                "event id",
                f"is {shown(text)}; give the version and the place of an event, such as 3.1",
            )
        return cls(int(found[1]), int(found[2]))


Cursor = tuple[int, int]
"""An `EventId`, or a plain tuple of its two numbers: stores may use either."""
