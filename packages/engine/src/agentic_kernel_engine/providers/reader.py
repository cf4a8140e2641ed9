"""Reader: makes an answer from what a server sends; and the plan from an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import msgspec

from agentic_kernel import InvalidValue

from .. import values
from ..plans.action import Action, AskUser, Thought
from ..plans.plan import Delta, Plan, Usage
from . import failures as names
from .answers import Asked, Malformed, actions_of, final_answer
from .conversation import provider
from .hosted import Citations
from .offers import Function

BETWEEN: Final = "\n\n"
"""The text between the texts of two parts of an answer."""
End = Literal["stop", "paused", "length", "context", "filter", "refusal"]

CUT: Final[Mapping[str, tuple[str, str]]] = {
    "length": (
        names.MAX_TOKENS,
        "the answer reached its token limit before its end; raise max_tokens, or the run's limits "
        "if less is left of them",
    ),
    "context": (
        names.CONTEXT_LENGTH,
        "the conversation and the answer do not fit the model's context; shorten the conversation, "
        "or use a model with a larger context",
    ),
    "filter": (names.CONTENT_FILTER, "the vendor's filter stopped the answer"),
    "refusal": (names.REFUSAL, "the model refuses"),
}
"""The failure and its message, by the end of an answer that cannot be used."""


class Counted(NamedTuple):
    """The tokens that a server counted."""

    usage: Usage
    """Without its cost."""
    written: int = 0
    """Input tokens that were written to a cache."""
    uncounted: tuple[str, ...] = ()
    """The fields of the usage that the server did not report."""

    def filled(self, worst: Usage) -> Counted:
        """Return the counts, with the worst case of each field that the server did not report.

        A part of the field that it did report counts if it is more.
        """
        unknown = {
            name: max(getattr(self.usage, name), getattr(worst, name)) for name in self.uncounted
        }
        return Counted(msgspec.structs.replace(self.usage, **unknown), self.written)


@dataclass(slots=True)
class Answer:
    """A whole answer."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Asked] = ()
    end: End = "stop"
    """``paused`` if the server goes on with the same answer at the next request."""
    reason: str = ""
    """The server's word for the end of the answer."""
    question: str = ""
    """A question of the server to a person, e.g. for an approval, that the calls do not ask."""
    refusal: str = ""
    """The text of a refusal, or its explanation."""
    category: str | None = None
    """The vendor's category of a refusal."""
    items: Sequence[Any] | None = None
    """The answer in the vendor's form; None if the other fields hold all of it."""
    before: str = ""
    """See `provider`."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """Further data for `Plan.provider`."""
    usage: Counted | None = None
    """None if the server did not report it."""
    model: str = ""


class Unusable(Exception):
    """Error for an answer that cannot become a plan.

    Args:
        name: The failure, by the names that all providers share.
        message: The message for people.
        metadata: Of the failure; parts that are None are left out.
    """

    def __init__(self, name: str, message: str, **metadata: Any) -> None:
        super().__init__(message)
        self.name = name
        self.metadata = metadata


class Reader(ABC):
    """Reads one answer, streamed or whole. Each method raises `Malformed` for what does not fit.

    Args:
        step: The number of the Task's step; a call without an id of the vendor is named after it.
        most: The most tokens of the answer; None if its beginning does not tell what it uses, as
            if the server runs tools.
        parallel: True to take all calls of an answer; False to take only the first one.
    """

    done: bool = False
    """True once no later event can change the answer."""
    ended: bool = False
    """True once the answer is whole, although its usage and the end of the stream may follow."""
    reason: str = ""
    """The server's word for the end of the answer."""
    model: str = ""
    count: Counted | None = None
    """The usage that the server reported last."""

    def __init__(self, step: int = 0, most: int | None = None, parallel: bool = True) -> None:
        self.calls: list[Asked] = []
        """The calls that have arrived whole."""
        self.parts: list[dict[str, Any]] = []
        """The parts of the answer in the vendor's form, if the reader keeps them; see `items`."""
        self.sources = Citations()
        """The sources that the answer names."""
        self._incoming: list[Asked] = []
        self._first = 0
        self._places: dict[int, int] = {}
        """By index: the place of its latest call."""
        self._step = step
        self.most = most
        self._parallel = parallel
        self._pieces: dict[str, list[str]] = {}
        self._telling: dict[str, Any] = {}
        """By channel: the part of the answer that its last piece belongs to."""

    def tell(self, text: str, channel: str = "", part: Any = None) -> list[Delta]:
        """Keep a piece of a channel's text, and return it; nothing for an empty one.

        Args:
            text: The piece.
            channel: Its channel.
            part: The part of the answer that the piece belongs to; the text of another part than
                that of the piece before begins after `BETWEEN`. None if the texts just go on.
        """
        if not text:
            return []
        if part is not None:
            if self._telling.get(channel, part) != part:
                text = BETWEEN + text
            self._telling[channel] = part
        self._pieces.setdefault(channel, []).append(text)
        return [Delta(text, channel)]

    def told(self, channel: str = "") -> str:
        """Return all text of a channel."""
        return "".join(self._pieces.get(channel, ()))

    def texts(self) -> dict[str, str]:
        """Return the text of the answer and its reasoning, by channel, as far as they were told."""
        return {channel: self.told(channel) for channel in ("", "reasoning")}

    def untell(self) -> None:
        """Forget all text, because it comes again as a whole."""
        self._pieces.clear()
        self._telling.clear()

    def call(self, id: str, name: str, arguments: str) -> list[Delta]:
        """Keep a whole call, and return its arguments; ignore a call that does not count."""
        if self.calls and not self._parallel:
            return []
        self.calls.append(Asked(id or f"call_{self._step}_{len(self.calls)}", name, arguments))
        return [Delta(arguments, "arguments")]

    def place(self, index: int | None, id: str, name: str) -> int:
        """Return the place in the answer, from 0, of the call that a piece belongs to.

        Some servers do not count their calls from 0, or give several calls the same index.

        Args:
            index: The server's number of the call; None if it sends each call in one piece.
            id: The id in the piece; empty if there is none, as for the name.
        """
        begun = self._incoming
        if index is None:
            return len(begun) - (0 if id or not begun else 1)
        if not begun:
            self._first = max(index, 0)
        place = self._places.get(index, index - self._first)
        if 0 <= place < len(begun) and name and id and begun[place].id not in ("", id):
            place = len(begun)
        self._places[index] = place
        return place

    def piece(self, place: int, id: str, name: str, arguments: str) -> list[Delta]:
        """Keep a piece of a call that comes in pieces, and return the piece of its arguments.

        Args:
            place: See `place`.
            id: Empty if another piece has it, as for the name and the arguments.

        Raises:
            Malformed: A call was left out, or the call has another id or name.
        """
        begun = self._incoming
        if not 0 <= place <= len(begun):
            raise Malformed(f"a piece is of call {place}, but only {len(begun)} calls have begun")
        if place == len(begun):
            begun.append(Asked(id, name, ""))
        known = begun[place]
        if (id and known.id and id != known.id) or (name and known.name and name != known.name):
            raise Malformed("the pieces of one call have different ids or names")
        begun[place] = Asked(known.id or id, known.name or name, "")
        self._pieces.setdefault(f"call {place}", []).append(arguments)
        return [Delta(arguments, "arguments")] if arguments else []

    def pieced(self) -> list[Asked]:
        """Return the calls that came in pieces, as far as they have arrived."""
        counted = self._incoming if self._parallel else self._incoming[:1]
        return [
            each._replace(arguments=self.told(f"call {place}"))
            for place, each in enumerate(counted)
        ]

    def kept(self, **more: Any) -> Answer:
        """Return the answer of what was kept; ``more`` are further fields of it.

        Raises:
            Malformed: The answer has not come to its end.
        """
        if not self.done and not self.reason:
            raise Malformed("the answer stopped before its end")
        made: dict[str, Any] = {
            "text": self.told(),
            "reasoning": self.told("reasoning"),
            "calls": self.calls or self.pieced(),
            "reason": self.reason,
            "further": self.sources.further,
            "usage": self.count,
            "model": self.model,
        }
        return Answer(**made | more)

    def items(self) -> list[dict[str, Any]] | None:
        """Return `parts` with the pieces of texts joined; None if all of them are text.

        Raises:
            Malformed: No store accepts a text of a part.
        """
        joined: list[dict[str, Any]] = []
        for is_text, group in groupby(self.parts, lambda part: part.keys() == {"text"}):
            few = list(group)
            joined += [{"text": "".join(part["text"] for part in few)}] if is_text else few
        if all(part.keys() == {"text"} for part in joined):
            return None
        try:
            values.check(joined, "parts")
        except InvalidValue as error:
            raise Malformed(str(error)) from error
        return joined

    @abstractmethod
    def read(self, event: Any) -> Iterable[Delta]:
        """Take the next event of a stream, and return the pieces of the answer in it."""

    def whole(self, response: Any) -> None:
        """Take an answer that was not streamed; by default it is one event."""
        for _ in self.read(response):
            pass

    @abstractmethod
    def answer(self) -> Answer:
        """Return the whole answer.

        Raises:
            Malformed: A part of the answer is missing.
            Unusable: The answer cannot become a plan.
        """

    def used(self) -> Counted | None:
        """Return the most that the answer has used; None if the server has not told it yet."""
        return self.count if self.done and not self.uncounted else self.begun()

    @property
    def uncounted(self) -> tuple[str, ...]:
        """The fields of the usage that the server has not reported so far."""
        return () if self.count is None else self.count.uncounted

    def begun(self) -> Counted | None:
        """Return the most that an answer at its beginning may use; None if that is not known.

        The server may count the input when the answer begins. The output is not known then: the
        model may have written more than has arrived. So the most tokens of the answer stand for it.
        """
        count, most = self.count, self.most
        if count is None or most is None or not count.usage.input_tokens:
            return None  # Some servers count nothing at the beginning.
        if "input_tokens" in count.uncounted:
            return None
        most = max(most, count.usage.output_tokens)
        return Counted(msgspec.structs.replace(count.usage, output_tokens=most), count.written)

    def after(self, event: Any) -> None:
        """Take an event after the end of the answer; by default like any other."""
        for _ in self.read(event):
            pass


def unshown(answer: Answer, shown: Mapping[str, str]) -> list[Delta]:
    """Return the rest of an answer's texts after the pieces of them that were shown.

    A server may tell a text, or the end of it, only with the whole answer. A text that does not
    begin with its pieces has no rest: a reader cannot take back the pieces that it has shown.

    Args:
        answer: The answer.
        shown: `Reader.texts` of the pieces.
    """
    rest: list[Delta] = []
    for channel, text in (("reasoning", answer.reasoning), ("", answer.text)):
        known = shown[channel]
        if len(text) > len(known) and text.startswith(known):
            rest.append(Delta(text[len(known) :], channel))
    return rest


def plan_of(
    answer: Answer, functions: Sequence[Function], schema: Mapping[str, Any] | None, wire: str
) -> Plan:
    """Return the plan from an answer, without its usage.

    Args:
        functions: The functions that the model was shown.
        schema: The JSON Schema of a final answer.
        wire: The API that the answer's opaque items belong to.

    Raises:
        Unusable: The answer was cut short, or is a refusal.
        Malformed: The answer is empty, or a call in it is not valid.
    """
    end = "refusal" if answer.refusal and answer.end == "stop" else answer.end
    if end in CUT:
        name, message = CUT[end]
        said = answer.text or answer.refusal
        if answer.refusal:
            message = f"{message}: {answer.refusal}"
        raise Unusable(name, message, text=said or None, category=answer.category)
    ids = [call.id for call in answer.calls if call.id]
    if len(set(ids)) != len(ids):
        raise Malformed("two calls in the answer have the same id")
    if not all(call.name for call in answer.calls):
        raise Malformed("a call in the answer has no name")
    actions: tuple[Action, ...]
    actions, calls = actions_of(answer.calls, functions)
    if not calls and answer.question:
        actions = (AskUser(answer.question),)
    elif not calls and end == "paused":
        actions = (Thought(answer.text),)
    elif not calls:
        if not answer.text.strip():
            why = f" ({answer.reason[:40]})" if answer.reason else ""
            raise Malformed(f"the answer is empty: it has no text and no call{why}")
        actions = (final_answer(answer.text, schema),)
    left = provider(wire, answer.items, calls, answer.before)
    if answer.further:
        left = {**(left or {"impl": wire}), **answer.further}
    return Plan(
        actions,
        text=answer.text if calls else "",
        reasoning=answer.reasoning,
        provider=left,
        model=answer.model,
    )
