"""Wire: one vendor's protocol, as far as the faults need it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

End = Literal["stop", "calls", "length", "filtered"]
"""Why an answer ended: it was complete, it calls tools, the limit cut it, a filter did."""


class Wire(Protocol):
    """The bytes of one vendor's protocol; each element of a list is one event of the stream."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str:
        """How the path of its requests ends, in small or capital letters."""
        ...

    @property
    def streamed(self) -> str:
        """The content type of a stream."""
        ...

    def text(self, model: str, pieces: Sequence[str], end: End = "stop") -> list[bytes]:
        """A streamed answer in these pieces."""
        ...

    def call(
        self,
        model: str,
        tool: str,
        arguments: Sequence[str],
        end: End = "calls",
        said: Sequence[str] = (),
    ) -> list[bytes]:
        """A streamed call of a tool.

        Args:
            arguments: The pieces in which its arguments come, JSON or not.
            said: The pieces of the text in front of the call, if there is any.
        """
        ...

    def refusal(self, model: str, text: str) -> list[bytes]:
        """A streamed answer in which the model refuses."""
        ...

    def whole(self, model: str, text: str) -> bytes:
        """The body of an answer that is not streamed."""
        ...

    def error(self, status: int, message: str, code: str | None = None) -> bytes:
        """The body that the vendor documents for this status.

        Args:
            code: A special reason: ``context_length``, ``quota``, or ``model``: there is none of
                the name that is given as the message.
        """
        ...

    def broken(self, message: str) -> list[bytes]:
        """The event that reports an error in the middle of a stream, and its end."""
        ...


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def event(value: Mapping[str, Any], name: str | None = None) -> bytes:
    """One server-sent event.

    The form is that of https://html.spec.whatwg.org/multipage/server-sent-events.html.
    """
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + encoded(value) + b"\n\n"
