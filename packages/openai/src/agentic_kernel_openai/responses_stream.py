"""ResponsesReader: reads the answers of the Responses API, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentic_kernel_engine.loop import Delta
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader
from agentic_kernel_engine.providers.reading import counted, got, plain, several, text

from .failures import Reported, not_of_the_answer
from .hosting import cited, question

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
        self._response: Any = None

    def read(self, event: Any) -> Sequence[Delta]:
        """See `Reader`."""
        kind = text(event, "type")
        if not kind:
            raise not_of_the_answer(event)
        if kind in _CHANNELS:
            piece = text(event, "delta")
            return (Delta(piece, _CHANNELS[kind]),) if piece else ()
        if kind == "response.output_item.done":
            item = got(event, "item")
            self._items[got(item, "id") or len(self._items)] = item
        elif kind in _ENDS:
            self._response = got(event, "response")
            self.done = True
        elif kind == "error":
            raise Reported(event)
        return ()

    def answer(self) -> Answer:
        """See `Reader`."""
        if self._response is None:
            raise Malformed("the stream ended before the answer was complete")
        return answer_of(self._response, self._stored, self._items)

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        self._response = response

    def used(self) -> Counted | None:
        """See `Reader`."""
        return counted(got(self._response, "usage"), _COUNTS)


def answer_of(response: Any, stored: bool, done: dict[Any, Any] | None = None) -> Answer:
    """Return the answer in a whole response.

    Args:
        stored: True if the vendor stores the items.
        done: The streamed items by id. They replace the items of a response that has none, and the
            reasoning items of any response.

    Raises:
        Malformed: The response is not a valid answer.
        Reported: The response reports that the server failed.
    """
    status = text(response, "status")
    if status in ("failed", "cancelled"):
        raise Reported(got(response, "error"))
    if status in ("queued", "in_progress"):
        raise Malformed("the response came before the answer was ready; do not set background")
    done = done or {}
    # Only the item's own event is sure to have its encrypted reasoning in full.
    output = [
        done.get(got(item, "id"), item) if got(item, "type") == _REASONING else item
        for item in several(response, "output") or done.values()
    ]
    said: list[str] = []
    thought: list[str] = []
    refused: list[str] = []
    calls: list[Asked] = []
    for item in output:
        kind = got(item, "type")
        if kind == "message":
            parts = several(item, "content")
            said.append("".join(text(part, "text") for part in parts))
            refused += (text(part, "refusal") for part in parts)
        elif kind == "function_call":
            calls.append(Asked(text(item, "call_id"), text(item, "name"), text(item, "arguments")))
            if not calls[-1].id:
                raise Malformed("a call in the answer has no id")
        elif kind == _REASONING:
            parts = [*several(item, "summary"), *several(item, "content")]
            thought += (text(part, "text") for part in parts)
    cut = text(got(response, "incomplete_details"), "reason")
    return Answer(
        text="\n\n".join(filter(None, said)),
        reasoning="\n\n".join(filter(None, thought)),
        calls=calls,
        end=_CUT.get(cut, "length") if status == "incomplete" else "stop",
        question=question(output),
        refusal="".join(refused),
        items=_opaque(output, stored),
        further=cited(output).further,
        usage=counted(got(response, "usage"), _COUNTS),
        model=text(response, "model"),
    )


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
