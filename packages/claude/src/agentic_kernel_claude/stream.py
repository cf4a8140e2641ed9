"""Reply: reads an answer of the Messages API from its events, or from a whole message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import LARGEST, Delta, Usage
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader

from .hosting import cited
from .messages import Wire

_T = TypeVar("_T")

_PIECES: Final[Mapping[str, tuple[str, str, str]]] = {
    "text_delta": ("text", "text", ""),
    "input_json_delta": ("partial_json", "input", "arguments"),
    "thinking_delta": ("thinking", "thinking", "reasoning"),
}
"""By type of the delta: its field, the field of the block that it extends, and its channel."""

_ENDS: Final[Mapping[str, Any]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refusal",
    "pause_turn": "paused",
}
_CUT: Final = ("length", "context", "refusal")


class Reply(Reader):
    """The part of an answer that has arrived so far.

    Each piece must come once and in order, because a call is built from its pieces alone.

    Args:
        wire: The messages of the request.
        most: The most tokens of the answer; None if the server runs tools of its own, because the
            input may then grow after it was counted.
    """

    def __init__(self, wire: Wire, most: int | None) -> None:
        super().__init__(most=most)
        self.blocks: list[dict[str, Any]] = []
        """Blocks in the form that the API accepts back; each is complete after its end event."""
        self._wire = wire
        self._stop = ""
        self._refused: Any = None
        self._counts: dict[str, int] = {}
        self._counted = False
        self._begun = False
        self._open: dict[int, list[str]] = {}
        self._arguments: dict[int, str] = {}

    def read(self, event: Any) -> Sequence[Delta]:
        """See `Reader`."""
        delta = self._take(event)
        return () if delta is None else (delta,)

    def _take(self, event: Any) -> Delta | None:
        match _part(event, "type", str):
            case "message_start":
                if self._begun:
                    raise Malformed("the answer begins twice")
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
                self._stop = getattr(delta, "stop_reason", None) or self._stop
                self._refused = getattr(delta, "stop_details", None) or self._refused
                self._count(getattr(event, "usage", None))
                self._counted = bool(self._stop) and getattr(event, "usage", None) is not None
            case "message_stop":
                self.done = True
        return None

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        message = response
        if getattr(message, "type", None) != "message":
            raise Malformed(f"the server sent {str(message)[:200]!a}, which is not a message")
        self._begun = self.done = self._counted = True
        self.model = _part(message, "model", str)
        self.blocks = [_block(each) for each in _part(message, "content", list)]
        self._stop = message.stop_reason or ""
        self._refused = message.stop_details
        self._count(getattr(message, "usage", None))

    def answer(self) -> Answer:
        """See `Reader`."""
        end = _ENDS.get(self._stop, "stop")
        if end not in _CUT:
            self._close()
        calls = [
            _asked(block, self._arguments.get(index, ""))
            for index, block in enumerate(self.blocks)
            if block["type"] == "tool_use"
        ]
        if self._stop == "tool_use" and not calls:
            raise Malformed("the stop_reason of the answer is tool_use, but it has no call")
        items, before = None, ""
        if end not in _CUT and (end == "paused" or not all(map(_rebuilt, self.blocks))):
            items, before = self.blocks, self._wire.fingerprint()
            msgspec.json.encode(items)  # Raises for a lone surrogate, which no store accepts.
        explained, category = (
            each if isinstance(each, str) and each else None
            for each in (getattr(self._refused, name, None) for name in ("explanation", "category"))
        )
        return Answer(
            text=self._said("text"),
            reasoning=self._said("thinking"),
            calls=calls,
            end=end,
            reason=self._stop,
            refusal=explained or "",
            category=category,
            items=items,
            before=before,
            further=cited(self.blocks).further,
            usage=self.count,
            model=self.model,
        )

    def used(self) -> Counted | None:
        """See `Reader`."""
        return self.count if self._counted else self.begun()

    def begun(self) -> Counted | None:
        """See `Reader`: the API counts the input when the answer begins, the output at its end."""
        return None if self._counted else super().begun()

    def _close(self) -> None:
        """End the reply, and parse the arguments of its calls."""
        if not self.done or self._open or not self._stop:
            raise Malformed("the answer stopped before its end")
        for index, said in self._arguments.items():
            if said:
                self.blocks[index]["input"] = _json(said)

    def _said(self, kind: str) -> str:
        said = (each[kind] for each in self.blocks if each["type"] == kind)
        return "".join(each for each in said if isinstance(each, str))

    def _start(self, index: int, block: Any) -> None:
        if not self._begun or self.done or index != len(self.blocks):
            raise Malformed(f"block {index} begins out of order")
        self.blocks.append(_block(block))
        self._open[index] = []

    def _grow(self, index: int, delta: Any) -> Delta | None:
        pieces = self._open.get(index)
        if pieces is None:
            raise Malformed(f"a piece came for block {index}, which is not open")
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
            raise Malformed(f"block {index} is {block['type']!a:.40}, and its piece is {kind}")
        text = _part(delta, part, str)
        text.encode()  # Raises for a lone surrogate, which no store accepts.
        pieces.append(text)
        own = channel != "arguments" or block["type"] == "tool_use"
        return Delta(text, channel) if text and own else None

    def _end(self, index: int) -> None:
        pieces = self._open.pop(index, None)
        if pieces is None:
            raise Malformed(f"block {index} ends, but it is not open")
        block, said = self.blocks[index], "".join(pieces)
        if "input" in block:
            self._arguments[index] = said
        elif said:
            grows = "thinking" if "thinking" in block else "text"
            block[grows] = block[grows] + said

    def _count(self, told: Any) -> None:
        """Store the counts of a usage; a later count includes the earlier one and replaces it.

        ``input_tokens`` of the API excludes tokens of a cache, ours not.
        """
        details = getattr(told, "output_tokens_details", None)
        for name, holder in _COUNTS:
            count = getattr(details if holder else told, name, None)
            if count is None:
                continue
            if type(count) is not int or not 0 <= count <= LARGEST:
                raise Malformed(f"{name} is {str(count)[:40]!a}, not a number of tokens")
            self._counts[name] = count
        if counts := self._counts:
            cached = counts.get("cache_read_input_tokens", 0)
            written = counts.get("cache_creation_input_tokens", 0)
            usage = Usage(
                input_tokens=counts.get("input_tokens", 0) + cached + written,
                output_tokens=counts.get("output_tokens", 0),
                cached_tokens=cached,
                reasoning_tokens=counts.get("thinking_tokens", 0),
            )
            self.count = Counted(usage, written)


_COUNTS: Final = (
    ("input_tokens", ""),
    ("output_tokens", ""),
    ("cache_read_input_tokens", ""),
    ("cache_creation_input_tokens", ""),
    ("thinking_tokens", "output_tokens_details"),
)


def _block(block: Any) -> dict[str, Any]:
    made = _plain(block)
    kind = made.get("type")
    if not isinstance(kind, str):
        raise Malformed("a block of the answer has no type")
    if kind in ("text", "thinking") and made.get(kind) is None:
        made[kind] = ""  # Some servers begin a block with null.
    return made


def _plain(model: Any) -> dict[str, Any]:
    """Return the JSON that an object of the SDK was parsed from."""
    if not hasattr(model, "to_dict"):
        raise Malformed(f"a part of the answer is {str(model)[:80]!a}, not a JSON object")
    made: dict[str, Any] = model.to_dict(mode="json", warnings=False)
    try:
        values.check(made, "the answer")
    except InvalidValue as error:
        raise Malformed(str(error)) from error
    return made


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Malformed(f"the arguments of a call are not valid JSON: {error}") from error


def _part(value: Any, name: str, kind: type[_T]) -> _T:
    part = getattr(value, name, None)
    if type(part) is not kind:
        raise Malformed(f"{name} of an event is {str(part)[:40]!a}, not of type {kind.__name__}")
    return part


def _asked(block: Mapping[str, Any], said: str) -> Asked:
    id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(id, str) or not isinstance(name, str) or not isinstance(arguments, dict):
        raise Malformed("a call has no id, no name, or no arguments")
    # The text itself, because parsing drops a key that the model wrote twice.
    return Asked(id, name, said or msgspec.json.encode(arguments).decode())


def _rebuilt(block: Mapping[str, Any]) -> bool:
    """Return True if a block can be rebuilt from the plan."""
    if block["type"] == "text":
        return not block.get("citations")
    caller = block.get("caller") or {"type": "direct"}
    return block["type"] == "tool_use" and caller == {"type": "direct"}
