"""What a crash trial of the Loop left behind, and what is wrong with it.

What must have happened is taken from the journal, and from what the store acknowledged to each
process; the Task and its history are held against it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Event
from agentic_kernel_engine.events import TASK_CLAIMED
from agentic_kernel_engine.loop import Observation, ToolCall, Turn, replay
from agentic_kernel_engine.plans import vocabulary

from .crash_evidence import (
    DUPLICATED,
    LOST,
    SIGKILL,
    UNFINISHED,
    UNREADABLE,
    WINNERS,
    Evidence,
    Finding,
    gather,
    history,
    processes,
    tasks,
)
from .crash_worker import VICTIM
from .loop_crash_points import (
    ANSWER,
    ASKED,
    BEGUN,
    FINISHED,
    REPEATABLE,
    USED,
    WORST,
    Noted,
    outcome_of,
    read_journal,
    script,
)
from .loop_crash_worker import TASK

TWICE: Final = "effects twice"
WRONG: Final = "wrongly determined"
RESERVATION: Final = "reservation lost"
FAULTS: Final = (TWICE, WRONG, LOST, DUPLICATED, UNREADABLE, WINNERS, RESERVATION, UNFINISHED)
"""What must not be."""
INDETERMINATE: Final = "indeterminate"


class Commit(NamedTuple):
    """One commit that the store acknowledged to a process."""

    process: str
    version: int
    types: Sequence[str]
    """Of its events."""
    reserved: bool
    """Whether it carries a reservation."""

    @property
    def settles(self) -> bool:
        """Whether a step ends with it."""
        return vocabulary.STEP_OBSERVED in self.types


@dataclass
class Remains:
    """Everything that there is to know about a trial when it is over."""

    evidence: Evidence
    """What the processes said, and what the store gives now."""
    journal: Sequence[Noted]
    """What was really done."""
    shapes: Sequence[str]
    """The steps of the Task, in their order."""
    limits: Mapping[str, int]

    @property
    def log(self) -> Sequence[Event]:
        """The events of the Task."""
        return self.evidence.logs.get(TASK, ())

    @property
    def indeterminate(self) -> int:
        """How many calls the run was told nothing certain about."""
        return sum(each.error == INDETERMINATE for each in replay(self.log).observations)

    @property
    def dead(self) -> frozenset[str]:
        """The processes that were killed."""
        codes = self.evidence.codes
        return frozenset(name for name, code in codes.items() if code == SIGKILL)

    @property
    def commits(self) -> list[Commit]:
        """What the store acknowledged, to whomever."""
        told = self.evidence.about("committed", TASK)
        return sorted((Commit(name, *value) for name, value in told), key=attrgetter("version"))

    @property
    def doubted(self) -> frozenset[int]:
        """The steps that one process prepared and another settled."""
        steps, preparer, found = 0, "", set()
        for commit in self.commits:
            if commit.settles:
                if preparer not in ("", commit.process):
                    found.add(steps)
                steps, preparer = steps + 1, ""
            elif vocabulary.EFFECTS_PREPARED in commit.types:
                preparer = commit.process
        return frozenset(found)

    @property
    def cut(self) -> int:
        """How many processes died with a reservation, and the run went on in another."""
        return sum(
            one.reserved and one.process != next_.process for one, next_ in pairwise(self.commits)
        )


async def gather_remains(
    folder: Path, codes: Mapping[str, int], shapes: Sequence[str], limits: Mapping[str, int]
) -> Remains:
    """Read all that a trial left."""
    evidence = await gather("file", folder, codes)
    return Remains(evidence, read_journal(folder / "journal"), shapes, limits)


def judge(remains: Remains) -> list[Finding]:
    """Everything that is wrong, against the journal and what was acknowledged."""
    evidence, log = remains.evidence, remains.log
    found = [
        *processes(evidence),
        *(Finding(UNREADABLE, detail) for detail in evidence.unreadable),
        *tasks(evidence),
    ]
    record = evidence.records.get(TASK)
    if record is None or not log:
        return [*found, Finding(LOST, "the Task or its history")]
    return [
        *found,
        *history(evidence, record, log),
        *(
            finding
            for look in (_acknowledged, _owners, _ended, _effects, _determined, _reservations)
            for finding in look(remains)
        ),
    ]


def _acknowledged(remains: Remains) -> Iterator[Finding]:
    """What the store said yes to is there, just so."""
    there: dict[int, list[str]] = defaultdict(list)
    for event in remains.log:
        if event.id is not None:
            there[event.id[0]].append(event.type)
    for commit in remains.commits:
        if there[commit.version] != commit.types:
            told = f"{commit.process} was told that version {commit.version} has {commit.types}"
            yield Finding(LOST, f"{told}, and it has {there[commit.version]}")


def _owners(remains: Remains) -> Iterator[Finding]:
    """The Task had one owner at a time, each but the last dead when the next one came."""
    evidence, dead = remains.evidence, remains.dead
    hosts = {value: name for name, value in evidence.about("host")}
    owners = [(1, VICTIM)] + [
        (event.id[0], str(hosts.get(event.data["by"])))
        for event in remains.log
        if event.type == TASK_CLAIMED and event.id is not None
    ]
    names = [name for _, name in owners]
    if len(set(names)) < len(names) or not dead.issuperset(names[:-1]):
        yield Finding(WINNERS, f"the owners were {names}, of whom {sorted(dead)} died")
    if names[-1] in dead and not evidence.records[TASK].task.status.terminal:
        yield Finding(WINNERS, f"nobody took over from {names[-1]}")
    told = [name for name, _ in evidence.about("claimed", TASK)]
    if sorted(told) != sorted(name for name in names[1:] if name not in dead or name in told):
        yield Finding(WINNERS, f"{told} were told that they took it over, and {names[1:]} did")
    for commit in remains.commits:
        owner = [name for version, name in owners if version <= commit.version][-1]
        if commit.process != owner:
            yield Finding(WINNERS, f"{commit.process} wrote {commit.version}, which was {owner}'s")


def _ended(remains: Remains) -> Iterator[Finding]:
    """The Task ended well, and its transcript is the whole script."""
    task = remains.evidence.records[TASK].task
    if task.status is not TaskStatus.SUCCESS or task.result != ANSWER:
        yield Finding(UNFINISHED, f"{task.status.value}, {task.result!r}, {task.failure}")
    turns = [entry for entry in replay(remains.log).transcript if isinstance(entry, Turn)]
    wanted = script(remains.shapes)
    if [turn.plan for turn in turns] != wanted:
        told = [[getattr(each, "tool", "") for each in turn.plan.actions] for turn in turns]
        yield Finding(LOST, f"the transcript has not the {len(wanted)} steps wanted but {told}")


def _calls(remains: Remains) -> Iterator[tuple[int, str, ToolCall]]:
    """Step, place and action of every call that was to be made."""
    for step, plan in enumerate(script(remains.shapes)):
        for index, action in enumerate(plan.actions):
            if isinstance(action, ToolCall):
                yield step, f"{TASK}:{step}:{index}", action


def _effects(remains: Remains) -> Iterator[Finding]:
    """What must not happen twice did not begin twice; what may did so under the same key."""
    begun: dict[str, list[Noted]] = defaultdict(list)
    for line in remains.journal:
        if line.what == BEGUN:
            begun[":".join(line.subject.split(":")[:3])].append(line)
    for step, place, call in _calls(remains):
        lines = begun.pop(place, [])
        keys = {line.subject for line in lines}
        if len(keys) > 1:
            yield Finding(TWICE, f"{call.tool} at {place} under {len(keys)} keys: {sorted(keys)}")
        if call.tool in REPEATABLE:
            each = Counter(line.process for line in lines)
            if max(each.values(), default=0) > 1:
                yield Finding(TWICE, f"{call.tool} at {place} was begun by {dict(each)}")
            continue
        if len(lines) > 1:
            yield Finding(TWICE, f"{call.tool} at {place} was begun {len(lines)} times")
        if step in remains.doubted and any(line.process not in remains.dead for line in lines):
            yield Finding(TWICE, f"{call.tool} at {place} was in doubt and begun by an heir")
    for place in begun:
        yield Finding(TWICE, f"nobody asked for the call at {place}")


def _determined(remains: Remains) -> Iterator[Finding]:
    """A call is indeterminate exactly if it was prepared and not settled; else it was done."""
    run = replay(remains.log)
    turns = [entry for entry in run.transcript if isinstance(entry, Turn)]
    finished = {
        ":".join(line.subject.split(":")[:3]) for line in remains.journal if line.what == FINISHED
    }
    doubted = remains.doubted
    for step, place, call in _calls(remains):
        index = int(place.rpartition(":")[2])
        if step >= len(turns) or index >= len(turns[step].observations):
            yield Finding(LOST, f"the observation of {call.tool} at {place}")
            continue
        seen = turns[step].observations[index]
        if call.tool not in REPEATABLE and step in doubted:
            if seen.error != INDETERMINATE:
                yield Finding(WRONG, f"{call.tool} at {place} was in doubt, and is {_text(seen)}")
        elif seen.error or seen.output != outcome_of(call):
            yield Finding(WRONG, f"{call.tool} at {place} was in no doubt, and is {_text(seen)}")
        elif place not in finished:
            yield Finding(WRONG, f"{call.tool} at {place} is {_text(seen)}, and never finished")


def _text(observation: Observation) -> str:
    return observation.error or repr(observation.output)


def _reservations(remains: Remains) -> Iterator[Finding]:
    """What was spent is no less than what was asked for, and within the limits (R17)."""
    asked = [line for line in remains.journal if line.what == ASKED]
    spent = replay(remains.log).spent
    calls, tokens = remains.limits["max_iterations"], remains.limits["max_output_tokens"]
    if spent.iterations < len(asked) or spent.output_tokens < len(asked) * USED.output_tokens:
        yield Finding(RESERVATION, f"{len(asked)} calls were made, and spent is {spent}")
    if spent.iterations > calls or spent.output_tokens > tokens or len(asked) > calls:
        yield Finding(RESERVATION, f"the limits are passed: {len(asked)} calls, spent is {spent}")
    for before, line in enumerate(asked):
        if calls - line.value < before:
            left = f"{line.value} of {calls} iterations were left"
            yield Finding(RESERVATION, f"before call {before + 1}, at {line.subject}, {left}")
    forfeited = [
        event.data["forfeited"] for event in remains.log if event.type == vocabulary.RUN_ENTERED
    ]
    wanted: list[Any] = [msgspec.to_builtins(WORST)] * remains.cut
    if forfeited != wanted:
        yield Finding(RESERVATION, f"forfeited are {forfeited}, and not {wanted}")
