"""Stream: the events of an answer, put together; and an answer that came at once."""

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
"""By type of the piece: its part, the part of the block that it grows, and its channel."""

LARGEST: Final = 10**12
"""What no count of tokens reaches."""


class Inconsistent(ValueError):
    """The server sent something that is no answer of the Messages API."""


class Reply:
    """An answer as far as it has come.

    Pieces have to come in order and each once: a call is made of nothing else.
    """

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        """As the API takes them back; complete once they have ended."""
        self.stop = ""
        """Why the answer ended."""
        self.refused: Any = None
        """What the API says of a refusal."""
        self.ended = False
        self.counts: dict[str, int] = {}
        """Tokens, by the API's names."""
        self.model = ""
        self._begun = False
        self._open: dict[int, list[str]] = {}
        self._arguments: dict[int, str] = {}

    def take(self, event: Any) -> Delta | None:
        """Take the next event of a stream; the piece of text in it, if there is one.

        Raises:
            Inconsistent: It does not fit those before it.
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
            case "message_stop":
                self.ended = True
        return None

    def whole(self, message: Any) -> None:
        """Take an answer that came at once.

        Raises:
            Inconsistent: It is none.
        """
        if getattr(message, "type", None) != "message":
            raise Inconsistent(f"{str(message)[:200]!a} is no message")
        self._begun = self.ended = True
        self.model = _part(message, "model", str)
        self.blocks = [_block(each) for each in _part(message, "content", list)]
        self.stop = message.stop_reason or ""
        self.refused = message.stop_details
        self._count(getattr(message, "usage", None))

    def close(self) -> None:
        """Say that nothing more comes.

        Raises:
            Inconsistent: The answer is not complete.
        """
        if not self.ended or self._open or not self.stop:
            raise Inconsistent("the answer stops before its end")
        for index, said in self._arguments.items():
            if said:
                self.blocks[index]["input"] = _json(said)

    def arguments(self, index: int) -> str:
        """The arguments of a call as the model wrote them; "" if a block brought them parsed."""
        return self._arguments.get(index, "")

    def text(self) -> str:
        """What the model says."""
        return self._said("text")

    def reasoning(self) -> str:
        """What it says of its thinking."""
        return self._said("thinking")

    def _said(self, kind: str) -> str:
        said = (each[kind] for each in self.blocks if each["type"] == kind)
        return "".join(each for each in said if isinstance(each, str))

    def _start(self, index: int, block: Any) -> None:
        if not self._begun or self.ended or index != len(self.blocks):
            raise Inconsistent(f"part {index} begins out of order")
        self.blocks.append(_block(block))
        self._open[index] = []

    def _grow(self, index: int, delta: Any) -> Delta | None:
        pieces = self._open.get(index)
        if pieces is None:
            raise Inconsistent(f"part {index} goes on without being open")
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
            raise Inconsistent(f"part {index} is {block['type']!a:.40}, and goes on as {kind}")
        text = _part(delta, part, str)
        text.encode()  # A store keeps no half of a character.
        pieces.append(text)
        own = channel != "arguments" or block["type"] == "tool_use"
        return Delta(text, channel) if text and own else None

    def _end(self, index: int) -> None:
        pieces = self._open.pop(index, None)
        if pieces is None:
            raise Inconsistent(f"part {index} ends without being open")
        block, said = self.blocks[index], "".join(pieces)
        if "input" in block:
            self._arguments[index] = said
        elif said:
            grows = "thinking" if "thinking" in block else "text"
            block[grows] = block[grows] + said

    def _count(self, usage: Any) -> None:
        """Take over the counts that are given; later ones include those before."""
        details = getattr(usage, "output_tokens_details", None)
        for name, holder in _COUNTS:
            count = getattr(details if holder else usage, name, None)
            if count is None:
                continue
            if type(count) is not int or not 0 <= count < LARGEST:
                raise Inconsistent(f"{name} is {str(count)[:40]!a}, and no number of tokens")
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
        raise Inconsistent("a part of the answer has no type")
    return made


def _plain(model: Any) -> dict[str, Any]:
    """A model of the SDK as the JSON that it was made of."""
    if not hasattr(model, "to_dict"):
        raise Inconsistent(f"a part of the answer is {str(model)[:80]!a}")
    made: dict[str, Any] = model.to_dict(mode="json", warnings=False)
    return made


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Inconsistent(f"the arguments of a call are no JSON: {error}") from error


def _part(value: Any, name: str, kind: type[_T]) -> _T:
    part = getattr(value, name, None)
    if type(part) is not kind:
        raise Inconsistent(f"an event has {str(part)[:40]!a} for its {name}")
    return part
