"""Reply: reads an answer of the Messages API from its events, or from a whole message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader
from agentic_kernel_engine.providers.reading import (
    arguments,
    counted,
    got,
    kind_of,
    number,
    plain,
    several,
    text,
)

from .hosting import READ, cite
from .messages import Wire

_CHANNELS: Final = {"text": "", "thinking": "reasoning"}
"""By part of a block: its channel."""
_PIECES: Final[Mapping[str, tuple[str, str, str]]] = {
    "text_delta": ("text", "text", ""),
    "input_json_delta": ("partial_json", "input", "arguments"),
    "thinking_delta": ("thinking", "thinking", "reasoning"),
}
"""By type of the delta: its field, the part of the block that it extends, and its channel."""
_ENDS: Final[Mapping[str, Any]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refusal",
    "pause_turn": "paused",
}
_CUT: Final = ("length", "context", "refusal")
_COUNTS: Final = {
    "input_tokens": "input_tokens cache_read_input_tokens cache_creation_input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cache_read_input_tokens",
    "reasoning_tokens": "output_tokens_details.thinking_tokens",
    "written": "cache_creation_input_tokens",
}
"""``input_tokens`` of the API excludes tokens of a cache, ours not."""
_COUNTED: Final = frozenset(
    name.partition(".")[0] for several_names in _COUNTS.values() for name in several_names.split()
)


class Reply(Reader):
    """The part of an answer that has arrived so far.

    Each piece must come once and in order, because a call is built from its pieces alone.

    Args:
        wire: The messages of the request.
        most: See `Reader`.
    """

    def __init__(self, wire: Wire, most: int | None) -> None:
        super().__init__(most=most)
        self.blocks: list[dict[str, Any]] = []
        """Blocks in the form that the API accepts back; each is complete after its end event."""
        self._wire = wire
        self._refused: Any = None
        self._counts: dict[str, Any] = {}
        self._begun = self._counted = False
        self._open: dict[int | None, list[str]] = {}
        self._arguments: dict[int, str] = {}

    def read(self, event: Any) -> Iterator[Delta]:
        """See `Reader`."""
        match text(event, "type"):
            case "":
                raise Malformed("an event of the stream has no type")
            case "message_start":
                self._begin(got(event, "message"))
            case "content_block_start":
                yield from self._start(number(event, "index"), got(event, "content_block"))
            case "content_block_delta":
                yield from self._grow(number(event, "index"), got(event, "delta"))
            case "content_block_stop":
                self._end(number(event, "index"))
            case "message_delta":
                self._stop(got(event, "delta"))
                self._count(got(event, "usage"))
                self._counted = bool(self.reason) and "output_tokens" not in self.uncounted
            case "message_stop":
                self.done = True

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        if text(response, "type") != "message":
            raise Malformed(f"the server sent {str(response)[:200]!a}, which is not a message")
        self._begin(response)
        for index, block in enumerate(several(response, "content")):
            self._start(index, block)
        self._stop(response)
        self._open.clear()
        self.done = self._counted = True

    def answer(self) -> Answer:
        """See `Reader`."""
        end = _ENDS.get(self.reason, "stop")
        if end not in _CUT:
            self._close()
        calls = [
            self._asked(index, block)
            for index, block in enumerate(self.blocks)
            if block["type"] == "tool_use"
        ]
        if self.reason == "tool_use" and not calls:
            raise Malformed("the stop_reason of the answer is tool_use, but it has no call")
        items, before = None, ""
        if end not in _CUT and (end == "paused" or not all(map(_rebuilt, self.blocks))):
            items, before = self.blocks, self._wire.fingerprint()
        cite(self.sources, self.blocks)
        return self.kept(
            calls=calls,
            end=end,
            refusal=text(self._refused, "explanation"),
            category=text(self._refused, "category") or None,
            items=items,
            before=before,
        )

    def used(self) -> Counted | None:
        """See `Reader`."""
        return self.count if self._counted else self.begun()

    def begun(self) -> Counted | None:
        """See `Reader`: the API counts the input when the answer begins, the output at its end."""
        return None if self._counted else super().begun()

    def _begin(self, message: Any) -> None:
        if self._begun:
            raise Malformed("the answer begins twice")
        self._begun, self.model = True, text(message, "model")
        if not self.model:
            raise Malformed("the answer begins without the name of its model")
        self._count(got(message, "usage"))

    def _start(self, index: int | None, block: Any) -> list[Delta]:
        if not self._begun or self.done or index != len(self.blocks):
            raise Malformed(f"block {index} begins out of order")
        self.blocks.append(_block(block))
        self._open[index] = []
        kind = self.blocks[-1]["type"]
        return self.tell(text(self.blocks[-1], kind), _CHANNELS[kind]) if kind in _CHANNELS else []

    def _grow(self, index: int | None, delta: Any) -> list[Delta]:
        if index is None or index not in self._open:
            raise Malformed(f"a piece came for block {index}, which is not open")
        block, kind = self.blocks[index], text(delta, "type")
        if kind == "signature_delta":
            block["signature"] = text(delta, "signature")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), plain(got(delta, "citation"))]
        if kind not in _PIECES:
            return []
        part, grows, channel = _PIECES[kind]
        piece = text(delta, part)
        if grows not in block or (not piece and got(delta, part) is None):
            raise Malformed(f"block {index} is {block['type']!a:.40}, and its piece is {kind}")
        self._open[index].append(piece)
        if channel != "arguments":
            return self.tell(piece, channel)
        return [Delta(piece, channel)] if piece and block["type"] == "tool_use" else []

    def _end(self, index: int | None) -> None:
        pieces = self._open.pop(index, None)
        if index is None or pieces is None:
            raise Malformed(f"block {index} ends, but it is not open")
        block, said = self.blocks[index], "".join(pieces)
        if "input" in block:
            self._arguments[index] = said
        elif said:
            block["thinking" if "thinking" in block else "text"] += said

    def _stop(self, told: Any) -> None:
        self.reason = text(told, "stop_reason") or self.reason
        self._refused = got(told, "stop_details") or self._refused

    def _count(self, told: Any) -> None:
        """Store the counts of a usage; a later count includes the earlier one and replaces it."""
        self._counts.pop("output_tokens", None)  # At the beginning it is that of the first token.
        new = {name: got(told, name) for name in _COUNTED}
        self._counts |= {name: count for name, count in new.items() if count is not None}
        self.count = counted(self._counts or None, _COUNTS)

    def _close(self) -> None:
        """End the reply, and parse the arguments of its calls."""
        if not self.done or self._open or not self.reason:
            raise Malformed("the answer stopped before its end")
        for index, said in self._arguments.items():
            if said:
                self.blocks[index]["input"] = _json(said)

    def _asked(self, index: int, block: Mapping[str, Any]) -> Asked:
        id, name = text(block, "id"), text(block, "name")
        # The text itself, because parsing drops a key that the model wrote twice.
        return Asked(id, name, self._arguments.get(index) or arguments(block, "input"))


def _block(block: Any) -> dict[str, Any]:
    made = plain(block)
    kind = kind_of(made, READ)
    if kind in _CHANNELS and made.get(kind) is None:
        made[kind] = ""  # Some servers begin a block with null.
    return made


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Malformed(f"the arguments of a call are not valid JSON: {error}") from error


def _rebuilt(block: Mapping[str, Any]) -> bool:
    """Return True if a block can be rebuilt from the plan."""
    if block["type"] == "text":
        return not block.get("citations")
    caller = block.get("caller") or {"type": "direct"}
    return block["type"] == "tool_use" and caller == {"type": "direct"}
