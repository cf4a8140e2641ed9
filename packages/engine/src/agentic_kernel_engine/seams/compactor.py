"""Compactor: the port that keeps the transcript short, and one that summarizes by quoting.

The result of a compactor depends only on its arguments. A compactor asks no model, because that
call would be neither reserved nor counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from ..plans.action import ToolCall
from ..plans.limits import Remaining
from ..plans.observation import Observation
from ..plans.transcript import Entry, Summary, Transcript, Turn, UserMessage

LONGEST: Final = 50_000
"""The longest summary, in characters."""
LINE: Final = 200
"""The longest line of an extract, in characters."""
_LEFT_OUT: Final = "(…)"
_encode = msgspec.json.Encoder().encode


class Compaction(msgspec.Struct, frozen=True):
    """A compactor's answer: a summary takes the place of the first entries."""

    entries: int
    """Number of entries to replace, counted from the first. Entries of one commit stay together,
    so the Loop may replace a few less."""
    summary: str
    """The text that the planner is shown instead."""


class Compactor(Protocol):
    """Decides before each call of the planner whether the transcript is to be shortened.

    The Task's instructions, an open question and the latest text of its user always stay. If a
    compactor raises, or asks for a cut that cannot be made, the run goes on with the transcript as
    it was, and an event says why.
    """

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        """Decide which entries to replace; None to replace no entry.

        Args:
            transcript: The Loop's own; neither change it nor keep it.
            remaining: The rest of the limits.
        """
        ...


class WindowCompactor:
    """Keeps the latest entries, and quotes from the others.

    It acts if the transcript is longer than either limit, and then makes room for several steps:
    the entries that it keeps fit in half of ``max_bytes``, except that it keeps at least one.

    Args:
        max_entries: The most entries of a transcript.
        max_bytes: The most bytes of a transcript as JSON.
        keep: The number of latest entries that are kept, if they fit.
        summary: The longest extract, in characters.

    Raises:
        InvalidValue: These do not fit together.
    """

    def __init__(
        self,
        max_entries: int = 200,
        max_bytes: int = 200_000,
        *,
        keep: int = 20,
        summary: int = 2_000,
    ) -> None:
        max_entries = edges.whole(max_entries, "max_entries", 1)
        max_bytes = edges.whole(max_bytes, "max_bytes", 1)
        keep, summary = edges.whole(keep, "keep", 1), edges.whole(summary, "summary", 1)
        if keep >= max_entries:
            raise InvalidValue(
                "keep", f"is {keep}; use less than max_entries ({max_entries}), or raise that"
            )
        most = min(max_bytes // 4, LONGEST)
        if not LINE <= summary <= most:
            raise InvalidValue(
                "summary", f"is {summary}; use {LINE} to {most}, a quarter of max_bytes at most"
            )
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._keep = keep
        self._summary = summary

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) <= self._max_entries and transcript.size <= self._max_bytes:
            return None
        kept = min(self._keep, fitting(transcript, self._max_bytes // 2) or 1)
        count = len(transcript) - kept
        # Entries that stayed beside the last summary were quoted when it was made.
        return Compaction(count, extract(transcript[transcript.fixed - 1 : count], self._summary))


def fitting(entries: Sequence[Entry], room: int) -> int:
    """Number of the last entries that fit into ``room`` bytes of JSON."""
    count = 0
    for entry in reversed(entries):
        room -= len(_encode(entry)) + 1
        if room < 0:
            break
        count += 1
    return count


def extract(entries: Sequence[Entry], length: int) -> str:
    """Quotes of what was said and done, a line each, in ``length`` characters at most.

    If the lines are too long together, lines of the middle are left out; a quarter of the length is
    for the oldest lines. The lines of an earlier summary are quoted, too.
    """
    lines = [line for entry in entries for line in _lines(entry) if line]
    if sum(len(line) + 1 for line in lines) <= length:
        return "\n".join(lines)
    lines = [line for line in lines if line != _LEFT_OUT]
    room = length - len(_LEFT_OUT) - 1
    first = _room_for(iter(lines), room // 4)
    last = _room_for(reversed(lines), room - sum(len(line) + 1 for line in first))
    return "\n".join([*first, _LEFT_OUT, *reversed(last)])


def _room_for(lines: Iterator[str], room: int) -> list[str]:
    """The first lines that fit into ``room`` characters."""
    found = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        found.append(line)
    return found


def _lines(entry: Entry) -> Iterator[str]:
    if isinstance(entry, Summary):
        yield from (_short(line) for line in entry.text.splitlines())
    elif isinstance(entry, Turn):
        if entry.plan.text:
            yield _short(f"said: {entry.plan.text}")
        for action, observation in zip(entry.plan.actions, entry.observations, strict=True):
            name, shown = type(action).__name__, msgspec.to_builtins(action)
            shown.pop("type", None)
            if isinstance(action, ToolCall):
                name, shown = action.tool, action.arguments
            yield f"{_short(f'{name} {_text(shown)}', LINE // 2)} -> {_came(observation)}"
    else:
        yield _short(f"{'user' if isinstance(entry, UserMessage) else 'notice'}: {entry.text}")


def _came(observation: Observation) -> str:
    if observation.error:
        return _short(f"{observation.error}: {observation.message}", LINE // 2 - 4)
    return _short(_text(observation.output), LINE // 2 - 4)


def _text(value: object) -> str:
    return _encode(value).decode()


def _short(text: str, length: int = LINE) -> str:
    """The text as one line, of ``length`` characters at most."""
    line = " ".join(text[: 2 * length].split())
    return line if len(line) <= length else line[: length - 1] + "…"
