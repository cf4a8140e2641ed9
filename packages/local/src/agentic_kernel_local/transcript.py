"""Transcript: the conversation of one Task, rebuilt from its durable events.

The state of a commit is a few counters. The history holds the text once, as ``run.delta`` events. A
``run.turn`` event separates two answers, and holds the number of supplements read so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_kernel import Task
from agentic_kernel_engine import Event, Job
from agentic_kernel_engine.events import RUN_DELTA, RUN_TURN

VERSION: Final = 1
"""Schema of the state."""


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

    @classmethod
    async def of(cls, job: Job) -> Transcript:
        """Return the conversation up to the last commit, from the state and the history (R15).

        The history is read once.

        Raises:
            UnknownState: The job's state is of another version or form.
        """
        transcript = cls(job.task)
        if job.state is not None:
            transcript._load(job.state)
            transcript._replay(await job.history())
        return transcript

    def _load(self, state: Any) -> None:
        if not isinstance(state, Mapping) or state.get("v") != VERSION:
            raise UnknownState(state)
        counts = [state.get(name) for name in ("tokens", "input_tokens", "output_tokens")]
        if any(type(count) is not int for count in counts):
            raise UnknownState(state)
        self.tokens, self.input_tokens, self.output_tokens = counts  # type: ignore[assignment]

    def _replay(self, history: Sequence[Event]) -> None:
        for event in history:
            if event.type == RUN_DELTA:
                self._turns[-1].pieces.append(str(event.data["text"]))
            elif event.type == RUN_TURN:
                self._turns.append(_Turn(int(event.data["supplements"])))

    def hear(self) -> Event | None:
        """Begin a new answer if there are new supplements; return the event that records it."""
        supplements = len(self._task.supplements)
        if supplements == self._turns[-1].supplements:
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
        self._turns[-1].pieces.append(text)
        self.count_answer(tokens)
        return Event(RUN_DELTA, {"text": text})

    def state(self) -> dict[str, int]:
        """Return the state to commit with the history; its size does not grow with the text."""
        return {
            "v": VERSION,
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

    def text(self) -> str:
        return "".join(self.pieces)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
