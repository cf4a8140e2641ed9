"""Transcript: the conversation of one Task, rebuilt from its durable events.

The state of a commit is a few counters. The history holds the text once, as ``run.delta`` events. A
``run.turn`` event separates two answers, and holds the number of supplements read so far. The
history may have text that was stored after the last commit; the state says how much of the text
belongs to it, and the answer goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine import Event, Job
from agentic_kernel_engine.events import RUN_DELTA, RUN_TURN
from agentic_kernel_engine.texts import Texts

VERSION: Final = 2
"""Schema of the state. Version 2 added ``said``. The text of a state of version 1 is that of the
deltas without a place, because the version that wrote it gave them none."""


class UnknownState(Exception):
    """Error for a state of another substrate, or of another version of this package."""

    def __init__(self, state: Any) -> None:
        super().__init__(
            f"this version cannot read the Task's state ({ascii(state)[:80]}); continue the Task "
            "with the version of agentic-kernel-local that began it"
        )


class Transcript:
    """All turns so far, and their token counts; the last turn is the answer in progress."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._turns = [_Turn(0)]
        self._prompt = self._answer = 0
        self.tokens = 0
        """Tokens of the answer in progress."""
        self.input_tokens = 0
        """Tokens of all prompts."""
        self.output_tokens = 0
        """Tokens of all answers."""
        self._said: int | None = None
        """The length of the answer in progress at the last commit; None for all of it."""

    @classmethod
    async def of(cls, job: Job) -> Transcript:
        """Return the conversation up to the last commit, from the state and the history (R15).

        The history is read once.

        Raises:
            UnknownState: The job's state is of another version or form.
        """
        transcript = cls(job.task)
        if job.state is not None:
            said = transcript._load(job.state)
            transcript._replay(await job.history(), said)
        elif not job.fresh:  # An earlier run may have said something and committed nothing.
            transcript._replay(await job.history(), 0)
        return transcript

    def _load(self, state: Any) -> int | None:
        """Read the counters; return the length of the answer in progress, if the state has it."""
        if not isinstance(state, Mapping) or state.get("v") not in (1, VERSION):
            raise UnknownState(state)
        names = ["tokens", "input_tokens", "output_tokens", *(["said"] if state["v"] > 1 else [])]
        counts = [state.get(name) for name in names]
        if any(type(count) is not int for count in counts):
            raise UnknownState(state)
        self.tokens, self.input_tokens, self.output_tokens, *said = counts  # type: ignore[assignment]
        return said[0] if said else None

    def _replay(self, history: Sequence[Event], said: int | None) -> None:
        texts = Texts()
        for event in history:
            if event.type == RUN_DELTA:
                if said is not None or "at" not in event.data:
                    texts.take(event)
            elif event.type == RUN_TURN:
                self._turns[-1].put(texts.text())
                self._turns.append(_Turn(int(event.data["supplements"])))
                texts = Texts()
        self._turns[-1].put(texts.text())
        self._said = said

    def hear(self) -> Event | None:
        """Begin a new answer if there are new supplements; return the event that records it.

        Otherwise the answer goes on from the last commit; text that was stored after it is said
        again.
        """
        supplements = len(self._task.supplements)
        if supplements == self._turns[-1].supplements:
            self._turns[-1].cut(self._said)
            return None
        self._turns.append(_Turn(supplements))
        self.tokens = 0
        return Event(RUN_TURN, {"supplements": supplements})

    def messages(self, system: str | None) -> list[dict[str, str]]:
        """Return the conversation as a chat; an answer in progress is its last message.

        Consecutive messages of the user become one message, because many models' chat templates
        require that user and assistant alternate.
        """
        chat = [] if system is None else [_message("system", system)]
        chat.append(_message("user", self._task.instructions))
        heard = 0
        for turn in self._turns:
            for supplement in self._task.supplements[heard : turn.supplements]:
                if chat[-1]["role"] == "user":
                    chat[-1]["content"] += "\n\n" + supplement
                else:
                    chat.append(_message("user", supplement))
            heard = turn.supplements
            if text := turn.text():
                chat.append(_message("assistant", text))
        return chat

    def begin_request(self) -> None:
        """Reset the counts of the current request, because a new request begins."""
        self._prompt = self._answer = 0

    def count_prompt(self, tokens: int) -> None:
        """Set the number of tokens of the request's prompt."""
        self.input_tokens += tokens - self._prompt
        self._prompt = tokens

    def count_answer(self, tokens: int) -> None:
        """Set the number of tokens generated since the request began."""
        grown = tokens - self._answer
        self._answer = tokens
        self.tokens += grown
        self.output_tokens += grown

    def add(self, text: str, tokens: int) -> Event:
        """Add text to the answer, set its tokens as `count_answer` does, and return the event."""
        turn = self._turns[-1]
        at = turn.length
        turn.put(text)
        self.count_answer(tokens)
        return Event(RUN_DELTA, {"text": text, "at": at})

    def state(self) -> dict[str, int]:
        """Return the state to commit with the history; its size does not grow with the text."""
        return {
            "v": VERSION,
            "said": self._turns[-1].length,
            "tokens": self.tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }

    def result(self, reason: str) -> dict[str, Any]:
        """Return the Task's result; see `LocalSubstrate`."""
        return {
            "text": self._turns[-1].text(),
            "finish_reason": reason,
            "usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens},
        }


class _Turn:
    """One answer, and the number of supplements before it."""

    def __init__(self, supplements: int) -> None:
        self.supplements = supplements
        self.pieces: list[str] = []
        self.length = 0
        """The number of characters of its text."""

    def put(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def cut(self, length: int | None) -> None:
        """Drop the text after this many characters."""
        if length is not None and length < self.length:
            self.pieces = [self.text()[:length]]
            self.length = length

    def text(self) -> str:
        return "".join(self.pieces)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
