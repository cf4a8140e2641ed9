"""ResponsesReader: reads the answers of the Responses API, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader
from agentic_kernel_engine.providers.reading import counted, got, kind_of, plain, several, text

from .failures import Reported, not_of_the_answer
from .hosting import READ, cite, question

_CHANNELS: Final = {
    "response.output_text.delta": "",
    "response.function_call_arguments.delta": "arguments",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_CUT: Final[dict[str, Any]] = {"max_output_tokens": "length", "content_filter": "filter"}
_REASONING: Final = "reasoning"
_PLAIN: Final = ("message", "function_call")
"""Types of items that can be rebuilt from their text, name and arguments."""
_TELLING: Final = ("phase", "namespace", "caller")
"""Fields of such an item that cannot be rebuilt."""
_COUNTS: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "input_tokens_details.cached_tokens",
    "reasoning_tokens": "output_tokens_details.reasoning_tokens",
    "written": "input_tokens_details.cache_write_tokens",
}


class ResponsesReader(Reader):
    """Reads a stream, and takes the answer from its last event, which holds all of it.

    So pieces that come twice or out of order cannot change the answer.

    Args:
        stored: True if the vendor stores the items.
    """

    def __init__(self, stored: bool) -> None:
        super().__init__()
        self._stored = stored
        self._items: dict[Any, Any] = {}
        """The streamed items by id. They replace the items of a response that has none, and the
        reasoning items of any response."""
        self._response: Any = None

    def read(self, event: Any) -> Sequence[Delta]:
        """See `Reader`."""
        kind = text(event, "type")
        if not kind:
            raise not_of_the_answer(event)
        if kind in _CHANNELS:
            return self._piece(event, kind, _CHANNELS[kind])
        if kind == "response.output_item.done":
            item = got(event, "item")
            self._items[text(item, "id") or len(self._items)] = item
        elif kind in _ENDS:
            self.whole(got(event, "response"))
        elif kind == "error":
            raise Reported(event)
        return ()

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        self._response, self.done = response, response is not None

    def answer(self) -> Answer:
        """See `Reader`.

        Raises:
            Reported: The response reports that the server failed.
        """
        response, status = self._response, text(self._response, "status")
        if status in ("failed", "cancelled"):
            raise Reported(got(response, "error"))
        if status in ("queued", "in_progress"):
            raise Malformed("the response came before the answer was ready; do not set background")
        # Only the item's own event is sure to have its encrypted reasoning in full.
        output = [
            self._items.get(text(item, "id"), item) if got(item, "type") == _REASONING else item
            for item in several(response, "output") or self._items.values()
        ]
        self.untell()
        for place, item in enumerate(output):
            self._take(item, place)
        cite(self.sources, output)
        cut = text(got(response, "incomplete_details"), "reason")
        return self.kept(
            end=_CUT.get(cut, "length") if status == "incomplete" else "stop",
            question=question(output),
            refusal=self.told("refusal"),
            items=_opaque(output, self._stored),
            usage=self.used(),
            model=text(response, "model"),
        )

    def used(self) -> Counted | None:
        """See `Reader`."""
        return counted(got(self._response, "usage"), _COUNTS)

    def _piece(self, event: Any, kind: str, channel: str) -> list[Delta]:
        place = got(event, "output_index")
        part = got(event, "item_id") if place is None else place
        if channel == "reasoning":
            part = (part, kind, got(event, "summary_index"), got(event, "content_index"))
        return self.tell(text(event, "delta"), channel, None if channel == "arguments" else part)

    def _take(self, item: Any, place: int) -> None:
        kind = kind_of(item, READ)
        if kind == "message":
            parts = several(item, "content")
            self.tell("".join(text(part, "text") for part in parts), part=place)
            self.tell("".join(text(part, "refusal") for part in parts), "refusal")
        elif kind == "function_call":
            call = Asked(text(item, "call_id"), text(item, "name"), text(item, "arguments"))
            if not call.id:
                raise Malformed("a call in the answer has no id")
            self.calls.append(call)
        elif kind == _REASONING:
            thoughts = [*several(item, "summary"), *several(item, "content")]
            for number, part in enumerate(thoughts):
                self.tell(text(part, "text"), "reasoning", (place, number))


def _opaque(output: Sequence[Any], stored: bool) -> list[Any] | None:
    """Return the items to send back unchanged; None if all of them can be rebuilt.

    A reasoning item is left out unless the vendor stores it or the item has its reasoning in
    encrypted form: the vendor could not find the reasoning again.
    """
    items = [
        item
        for item in output
        if got(item, "type") != _REASONING or stored or got(item, "encrypted_content")
    ]
    if all(
        got(item, "type") in _PLAIN and not any(got(item, part) for part in _TELLING)
        for item in items
    ):
        return None
    return [plain(item) for item in items]
