"""Compaction: a summary replaces the first entries of a transcript (R15).

The replaced entries stay in the Task's history; the state holds a cursor after them. These entries
are never replaced:

- the Task's instructions;
- the latest `KEPT_TEXTS` messages of the user, as many as fit into `KEPT` characters together; the
  last message always, however long it is;
- a question without an answer.

An entry that is not committed yet is not replaced either. A turn is replaced whole or not at all.
"""

from __future__ import annotations

import asyncio
import inspect
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agentic_kernel import InvalidValue

from .. import values
from ..faults import report
from ..plans import vocabulary
from ..plans.action import AskUser
from ..plans.ending import unhandled
from ..plans.plan import Plan
from ..plans.transcript import Entry, Summary, Transcript, Turn, UserMessage
from ..seams.compactor import LONGEST, Compaction, Compactor
from ..seams.middleware import storable

if TYPE_CHECKING:
    from .run import LoopRun

KEPT_TEXTS: Final = 20
"""The most messages of the user that are kept beside a summary."""
KEPT: Final = 4_000
"""The most characters that they may have together, if there is more than one."""


def compact(compactor: Compactor, run: LoopRun) -> None:
    """Ask the compactor to shorten the transcript; the step's commit carries the summary."""
    if run.state.at_hand is not None:
        return
    transcript = run.transcript
    wanted = ask(compactor, run, transcript)
    if wanted is None:
        return
    index = bisect_right(transcript.cuts, wanted.entries, key=lambda cut: cut[0]) - 1
    if index < 0 or transcript.cuts[index][0] <= transcript.fixed:
        return
    count, cursor = transcript.cuts[index]
    kept = _kept(transcript, count, run.opening)
    run.record(vocabulary.RUN_COMPACTED, summary=wanted.summary, kept=kept, after=cursor)
    run.state.cursor = cursor
    head = [run.opening, *kept, Summary(wanted.summary)]
    cuts = [(n - count + len(head), id) for n, id in transcript.cuts if n >= count]
    run.transcript = Transcript([*head, *transcript[count:]], cuts, len(head))


def ask(compactor: Compactor, run: LoopRun, transcript: Transcript) -> Compaction | None:
    """The compactor's answer if it is valid; else None, and an event says why."""
    length = len(transcript)
    try:
        wanted = compactor.compact(transcript, run.remaining)
        why = "" if wanted is None else _fault(wanted, transcript)
    except (Exception, asyncio.CancelledError) as error:
        report(error, run.task.id, run.state.step, f"the compactor {type(compactor).__name__}")
        wanted, why = None, f"it raised {unhandled(error).message}"
    if len(transcript) != length:
        wanted, why = None, "it changed the transcript"
        transcript.cut_back(length)
    if why:
        run.record(vocabulary.RUN_NOT_COMPACTED, why=storable(why))
        return None
    return wanted


def _fault(wanted: object, transcript: Sequence[Entry]) -> str:
    """The error in a compactor's answer; "" if it is valid."""
    if inspect.iscoroutine(wanted):
        wanted.close()
    if not isinstance(wanted, Compaction):
        return f"it gave a {type(wanted).__name__}; it must give a Compaction or None"
    count, summary = wanted.entries, wanted.summary
    if type(count) is not int or type(summary) is not str:
        return "its Compaction is not made of a number and a text"
    if not 1 <= count <= len(transcript):
        return f"it replaces {count} entries of {len(transcript)}"
    if not summary.strip() or len(summary) > LONGEST:
        return f"its summary has {len(summary):,} characters; use 1 to {LONGEST:,}"
    try:
        values.check_text(summary, "its summary")
    except InvalidValue as error:
        return str(error)
    return ""


def _kept(transcript: Sequence[Entry], count: int, opening: Entry) -> list[Entry]:
    """The entries that stay visible beside the summary that replaces them."""
    first = next((i for i in range(count) if transcript[i] is opening), -1) + 1
    said = [entry for entry in transcript[first:count] if isinstance(entry, UserMessage)]
    found: list[Entry] = []
    room = KEPT
    for message in reversed(said[-KEPT_TEXTS:]):
        room -= len(message.text)
        if room < 0 and found:
            break
        found.append(message)
    found.reverse()
    return [*found, *_open_question(transcript, count)]


def _open_question(transcript: Sequence[Entry], count: int) -> list[Entry]:
    """The last question, if it is among the first ``count`` entries and has no answer."""
    for index in range(len(transcript) - 1, -1, -1):
        entry = transcript[index]
        if isinstance(entry, UserMessage):
            return []
        if isinstance(entry, Turn):
            for action, observation in zip(entry.plan.actions, entry.observations, strict=True):
                if isinstance(action, AskUser) and observation.ok:
                    return [Turn(Plan((action,)), (observation,))] if index < count else []
    return []
