"""Compactors, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel_engine.loop import Remaining, Turn
from agentic_kernel_engine.plans.transcript import Transcript
from agentic_kernel_engine.seams import Compaction, WindowCompactor


class _Small(WindowCompactor):
    def __init__(self) -> None:
        super().__init__(40, keep=10)


class CutsNothing(_Small):
    """The cut of a transcript that was cut before ends among the entries that always stay."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) < 40:
            return None
        return Compaction(1, f"{len(transcript)} entries")


class OneTooMany(_Small):
    """It counts the entries from one, and the summary as one of them."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) < 40:
            return None
        return Compaction(len(transcript) + 1, "all of it")


class SaysNothing(_Small):
    """The texts of the model are the summary, and there may be none."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) < 40:
            return None
        turns = [entry for entry in transcript if isinstance(entry, Turn)]
        said = "\n".join(turn.plan.text for turn in turns[:20] if turn.plan.text)
        return Compaction(len(transcript) - 10, said[:2_000])


class QuotesAll(_Small):
    """The summary has every result, however long."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) < 40:
            return None
        turns = [entry for entry in transcript if isinstance(entry, Turn)]
        outputs = [str(each.output) for turn in turns for each in turn.observations]
        return Compaction(len(transcript) - 10, "\n".join(outputs) or "nothing")


class EveryOtherTime(_Small):
    """It counts its calls, to act at every other step only."""

    calls = 0

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        self.calls += 1
        return super().compact(transcript, remaining) if self.calls % 2 else None


class KeepsTheLast(_Small):
    """It keeps the last transcript, to see what is new in the next one."""

    last: Any = ()

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        self.last = transcript
        return super().compact(transcript, remaining)


class MarksThePlace(_Small):
    """It appends its summary to the transcript itself."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        found = super().compact(transcript, remaining)
        if found is not None:
            transcript.append(transcript[-1])
        return found


class AsksLater(_Small):
    """A summary is asked for in the background, for the next time."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        found = super().compact(transcript, remaining)
        if found is not None:
            self.asking = asyncio.ensure_future(asyncio.Event().wait())
        return found


class ReadsTheAction(_Small):
    """The first action of each turn is quoted, and a turn may have none."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) < 40:
            return None
        turns = [entry for entry in transcript if isinstance(entry, Turn)]
        names = [type(turn.plan.actions[0]).__name__ for turn in turns[:20]]
        return Compaction(len(transcript) - 10, " ".join(names) or "texts")


class CutsOnce(_Small):
    """It shortens a transcript that has no summary yet, and never again."""

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        return super().compact(transcript, remaining) if transcript.fixed == 1 else None


class ByLength(_Small):
    """Its summaries are kept by the length of the transcript."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, Compaction | None] = {}

    def compact(self, transcript: Transcript, remaining: Remaining) -> Compaction | None:
        if len(transcript) not in self.made:
            self.made[len(transcript)] = super().compact(transcript, remaining)
        return self.made[len(transcript)]
