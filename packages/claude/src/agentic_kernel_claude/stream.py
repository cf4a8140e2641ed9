"""Stream: builds a reply from the events of a stream, or from a whole message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from agentic_kernel_engine.loop import Delta

_T = TypeVar("_T")

_PIECES: Final[Mapping[str, tuple[str, str, str]]] = {
    "text_delta": ("text", "text", ""),
    "input_json_delta": ("partial_json", "input", "arguments"),
    "thinking_delta": ("thinking", "thinking", "reasoning"),
}
"""By type of the delta: its field, the field of the block that it extends, and its channel."""

LARGEST: Final = 10**12
"""Every valid count of tokens is below this number."""


class Inconsistent(ValueError):
    """Error for a response that is not a valid answer of the Messages API."""


class Reply:
    """The part of an answer that has arrived so far.

    Each piece must come once and in order, because a call is built from its pieces alone.
    """

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        """Blocks in the form that the API accepts back; each is complete after its end event."""
        self.stop = ""
        """The reason why the answer ended."""
        self.refused: Any = None
        """The API's details of a refusal."""
        self.ended = False
        self.counts: dict[str, int] = {}
        """Token counts, by the API's names."""
        self.counted = False
        """True once the counts are those of the whole answer, and not of its beginning."""
        self.model = ""
        self._begun = False
        self._open: dict[int, list[str]] = {}
        self._arguments: dict[int, str] = {}

    def take(self, event: Any) -> Delta | None:
        """Take the next event of a stream, and return the piece of text in it, if any.

        Raises:
            Inconsistent: The event does not fit the events before it.
        """
        match _part(event, "type", str):
            case "message_start":
                if self._begun:
                    raise Inconsistent("the answer begins twice")
                self._begun = True
                message = getattr(event, "message", None)
                self.model = _part(message, "model", str)
                self._count(getattr(message, "usage", None))
            case "content_block_start":
                self._start(_part(event, "index", int), getattr(event, "content_block", None))
            case "content_block_delta":
                return self._grow(_part(event, "index", int), getattr(event, "delta", None))
            case "content_block_stop":
                self._end(_part(event, "index", int))
            case "message_delta":
                delta = getattr(event, "delta", None)
                self.stop = getattr(delta, "stop_reason", None) or self.stop
                self.refused = getattr(delta, "stop_details", None) or self.refused
                self._count(getattr(event, "usage", None))
                self.counted = bool(self.stop) and getattr(event, "usage", None) is not None
            case "message_stop":
                self.ended = True
        return None

    def whole(self, message: Any) -> None:
        """Take an answer that came as one message.

        Raises:
            Inconsistent: The message is not a valid answer.
        """
        if getattr(message, "type", None) != "message":
            raise Inconsistent(f"the server sent {str(message)[:200]!a}, which is not a message")
        self._begun = self.ended = self.counted = True
        self.model = _part(message, "model", str)
        self.blocks = [_block(each) for each in _part(message, "content", list)]
        self.stop = message.stop_reason or ""
        self.refused = message.stop_details
        self._count(getattr(message, "usage", None))

    def close(self) -> None:
        """End the reply, and parse the arguments of its calls.

        Raises:
            Inconsistent: The answer is not complete.
        """
        if not self.ended or self._open or not self.stop:
            raise Inconsistent("the answer stopped before its end")
        for index, said in self._arguments.items():
            if said:
                self.blocks[index]["input"] = _json(said)

    def arguments(self, index: int) -> str:
        """Return a call's arguments as the model wrote them; "" if the block holds them parsed."""
        return self._arguments.get(index, "")

    def text(self) -> str:
        """Return the text of the answer."""
        return self._said("text")

    def reasoning(self) -> str:
        """Return the text of the model's thinking."""
        return self._said("thinking")

    def _said(self, kind: str) -> str:
        said = (each[kind] for each in self.blocks if each["type"] == kind)
        return "".join(each for each in said if isinstance(each, str))

    def _start(self, index: int, block: Any) -> None:
        if not self._begun or self.ended or index != len(self.blocks):
            raise Inconsistent(f"block {index} begins out of order")
        self.blocks.append(_block(block))
        self._open[index] = []

    def _grow(self, index: int, delta: Any) -> Delta | None:
        pieces = self._open.get(index)
        if pieces is None:
            raise Inconsistent(f"a piece came for block {index}, which is not open")
        block, kind = self.blocks[index], _part(delta, "type", str)
        known = _PIECES.get(kind)
        if known is None:
            if kind == "signature_delta":
                block["signature"] = _part(delta, "signature", str)
            elif kind == "citations_delta":
                block["citations"] = citations = block.get("citations") or []
                citations.append(_plain(delta.citation))
            return None
        part, grows, channel = known
        if grows not in block:
            raise Inconsistent(f"block {index} is {block['type']!a:.40}, and its piece is {kind}")
        text = _part(delta, part, str)
        text.encode()  # Raises for a lone surrogate, which no store accepts.
        pieces.append(text)
        own = channel != "arguments" or block["type"] == "tool_use"
        return Delta(text, channel) if text and own else None

    def _end(self, index: int) -> None:
        pieces = self._open.pop(index, None)
        if pieces is None:
            raise Inconsistent(f"block {index} ends, but it is not open")
        block, said = self.blocks[index], "".join(pieces)
        if "input" in block:
            self._arguments[index] = said
        elif said:
            grows = "thinking" if "thinking" in block else "text"
            block[grows] = block[grows] + said

    def _count(self, usage: Any) -> None:
        """Store the counts of a usage; a later count includes the earlier one and replaces it."""
        details = getattr(usage, "output_tokens_details", None)
        for name, holder in _COUNTS:
            count = getattr(details if holder else usage, name, None)
            if count is None:
                continue
            if type(count) is not int or not 0 <= count < LARGEST:
                raise Inconsistent(f"{name} is {str(count)[:40]!a}, not a number of tokens")
            self.counts[name] = count


_COUNTS: Final = (
    ("input_tokens", ""),
    ("output_tokens", ""),
    ("cache_read_input_tokens", ""),
    ("cache_creation_input_tokens", ""),
    ("thinking_tokens", "output_tokens_details"),
)


def _block(block: Any) -> dict[str, Any]:
    made = _plain(block)
    if not isinstance(made.get("type"), str):
        raise Inconsistent("a block of the answer has no type")
    return made


def _plain(model: Any) -> dict[str, Any]:
    """Return the JSON that an object of the SDK was parsed from."""
    if not hasattr(model, "to_dict"):
        raise Inconsistent(f"a part of the answer is {str(model)[:80]!a}, not a JSON object")
    made: dict[str, Any] = model.to_dict(mode="json", warnings=False)
    return made


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Inconsistent(f"the arguments of a call are not valid JSON: {error}") from error


def _part(value: Any, name: str, kind: type[_T]) -> _T:
    part = getattr(value, name, None)
    if type(part) is not kind:
        raise Inconsistent(f"{name} of an event is {str(part)[:40]!a}, not of type {kind.__name__}")
    return part
