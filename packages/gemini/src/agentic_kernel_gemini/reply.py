"""Reply: reads an answer from its parts; a whole answer is one event."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from agentic_kernel_engine.loop import Delta, Usage
from agentic_kernel_engine.providers import Answer, Asked, Counted, Malformed, Reader, Unusable
from agentic_kernel_engine.providers import failures as names
from agentic_kernel_engine.providers.reading import arguments, counted, got, several, text

from .failures import ENDS

_COUNTS: Final = {
    "input_tokens": "prompt_token_count tool_use_prompt_token_count",
    "output_tokens": "candidates_token_count thoughts_token_count",
    "cached_tokens": "cached_content_token_count",
    "reasoning_tokens": "thoughts_token_count",
}


class Reply(Reader):
    """The part of an answer that has arrived so far.

    The API does not number the events, so their order cannot be checked.

    Args:
        step: The number of the Task's step; calls without an id of the API are named after it.
        most: The most tokens of the answer; None if the input may still grow while it is written,
            because the server runs tools of its own.
        parallel: True to take all calls of an answer; False to take only the first one.
    """

    def __init__(self, step: int, most: int | None, parallel: bool) -> None:
        super().__init__()
        self._step = step
        self._most = most
        self._parallel = parallel
        self._parts: list[dict[str, Any]] = []
        self._calls: list[Asked] = []
        self._reason = ""
        self._why = ""
        self._count: Counted | None = None
        self._model = ""

    def read(self, event: Any) -> Iterator[Delta]:
        """See `Reader`."""
        self._model = text(event, "model_version") or self._model
        # Each count replaces the one before.
        self._count = counted(got(event, "usage_metadata"), _COUNTS) or self._count
        blocked = got(event, "prompt_feedback")
        if got(blocked, "block_reason"):
            self._end(text(blocked, "block_reason"), text(blocked, "block_reason_message"))
            self._reason = "SAFETY"
        for candidate in several(event, "candidates"):
            for part in several(got(candidate, "content"), "parts"):
                yield from self._take(part)
            if got(candidate, "finish_reason"):
                self._end(text(candidate, "finish_reason"), text(candidate, "finish_message"))

    def whole(self, response: Any) -> None:
        """See `Reader`."""
        for _ in self.read(response):
            pass

    def after(self, event: Any) -> None:
        """See `Reader`: only counts may come after the end."""
        if several(event, "candidates"):
            raise Malformed("the answer went on after its end")
        self._count = counted(got(event, "usage_metadata"), _COUNTS) or self._count

    def answer(self) -> Answer:
        """See `Reader`."""
        if not self.done:
            raise Malformed("the answer stopped before its end")
        end: Any = ENDS.get(self._reason, "stop")
        if end in (names.BAD_RESPONSE, names.PERMISSION):
            raise Unusable(
                end, f"the server ended the answer: {self._why}", text=self.told() or None
            )
        plain = all(map(_plain, self._parts))
        return Answer(
            text=self.told(),
            reasoning=self.told("reasoning"),
            calls=self._calls,
            end=end,
            reason=self._why,
            category=self._why if end == "filter" else None,
            items=None if plain else _joined(self._parts),
            usage=self._count,
            model=self._model,
        )

    def used(self) -> Counted | None:
        """See `Reader`."""
        return self._count if self.done else self.begun()

    def begun(self) -> Counted | None:
        """See `Reader`: the first event counts the input, and no event but the last the output."""
        if self._count is None or self._most is None or not self._count.usage.input_tokens:
            return None
        usage = self._count.usage
        most = max(self._most, usage.output_tokens)
        return Counted(Usage(usage.input_tokens, most, usage.cached_tokens))

    def _end(self, reason: str, message: str) -> None:
        self.done = True
        self._reason = reason
        self._why = f"{reason}: {message}" if message else reason

    def _take(self, part: Any) -> Iterator[Delta]:
        call = got(part, "function_call")
        if call is None:
            yield from self.tell(text(part, "text"), "reasoning" if got(part, "thought") else "")
        elif self._parallel or not self._calls:
            if got(call, "will_continue") or got(call, "partial_args"):
                raise Malformed("the arguments of a call come in pieces, which is not supported")
            given = arguments(call, "args")
            id = text(call, "id") or f"call_{self._step}_{len(self._calls)}"
            self._calls.append(Asked(id, text(call, "name"), given))
            yield Delta(given, "arguments")
        else:
            return
        self._parts.append(part.model_dump(mode="json", by_alias=True, exclude_none=True))


def _plain(part: dict[str, Any]) -> bool:
    """Return True if a part can be rebuilt from the plan."""
    return part.keys() <= {"text", "thought"} or (
        part.keys() == {"functionCall"} and "id" not in part["functionCall"]
    )


def _joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts to send back, with texts joined and without the summaries of thoughts."""
    joined: list[dict[str, Any]] = []
    for is_text, several_parts in groupby(parts, lambda each: each.keys() == {"text"}):
        if is_text:
            joined.append({"text": "".join(each["text"] for each in several_parts)})
        else:
            joined += (each for each in several_parts if each.keys() != {"text", "thought"})
    return joined
