"""The evidence of a crash trial, and its faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentic_kernel import TaskStatus
from agentic_kernel_engine import Event, Record
from agentic_kernel_engine import events as vocabulary
from agentic_kernel_engine.events import from_stored

from .crash_points import open_store
from .crash_worker import VICTIM

LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
UNREADABLE: Final = "unreadable"
WINNERS: Final = "not one winner"
UNFINISHED: Final = "unfinished"
INDETERMINATE: Final = "indeterminate"
FAULTS: Final = (LOST, DUPLICATED, UNREADABLE, WINNERS, UNFINISHED)
"""What must not be. Indeterminate steps may be, one at most for each kill."""

SIGKILL: Final = -9


class Said(NamedTuple):
    """One thing that a process said."""

    what: str
    task: str
    value: Any


class Finding(NamedTuple):
    """One thing that is wrong."""

    fault: str
    detail: str


@dataclass
class Evidence:
    """Everything that there is to know about a trial when it is over."""

    codes: Mapping[str, int]
    """The end of each process."""
    said: Mapping[str, Sequence[Said]]
    """The lines of each process, in order."""
    effects: Sequence[tuple[str, int]]
    """Task and step of each effect that happened, in order."""
    records: Mapping[str, Record] = field(default_factory=dict)
    logs: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    """The events of each Task, in the order in which the store gives them."""
    unreadable: Sequence[str] = ()
    """What the store could not give."""
    trouble: Mapping[str, str] = field(default_factory=dict)
    """What each process wrote to its standard error."""

    @property
    def indeterminate(self) -> int:
        """The number of steps that were marked as indeterminate."""
        logs = self.logs.values()
        return sum(event.type == "step.indeterminate" for log in logs for event in log)

    @property
    def take_overs(self) -> int:
        """The number of Tasks that were taken over."""
        return len(self.about("claimed"))

    def about(self, what: str, task: str | None = None) -> list[tuple[str, Any]]:
        """Who said this, of this Task, and with which value."""
        return [
            (name, said.value)
            for name, lines in self.said.items()
            for said in lines
            if said.what == what and task in (None, said.task)
        ]


async def gather(kind: str, folder: Path, codes: Mapping[str, int]) -> Evidence:
    """Read all that a trial left, from the store through a handle of its own."""
    records: dict[str, Record] = {}
    logs: dict[str, list[Event]] = {}
    unreadable: list[str] = []
    store = open_store(kind, folder)
    try:
        for record in await store.find():
            task_id = record.task.id
            try:
                records[task_id] = await store.load(task_id)
                found = await store.events(task_id)
                logs[task_id] = [from_stored(place, text) for place, text in found]
            except Exception as fault:  # whatever it is, the Task does not read
                unreadable.append(f"{task_id}: {type(fault).__name__}: {fault}")
        unreadable += [f"{bad.task_id}: {bad}" for bad in await store.unreadable()]
    except Exception as fault:
        unreadable.append(f"find: {type(fault).__name__}: {fault}")
    finally:
        store.close()
    return Evidence(
        codes,
        {name: said(folder, name) for name in codes},
        _effects(folder / "effects"),
        records,
        logs,
        unreadable,
        {name: (folder / f"{name}.trouble").read_text() for name in codes},
    )


def said(folder: Path, name: str) -> list[Said]:
    """The lines of a process."""
    lines = (folder / f"{name}.said").read_text().splitlines()
    return [Said(*json.loads(line)) for line in lines]


def _effects(path: Path) -> list[tuple[str, int]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(task, int(step)) for task, step in (line.split() for line in lines)]


def judge(evidence: Evidence) -> list[Finding]:
    """Everything that is wrong, against what was acknowledged to the dead and to the living."""
    return [
        *processes(evidence),
        *(Finding(UNREADABLE, detail) for detail in evidence.unreadable),
        *tasks(evidence),
        *(
            finding
            for task, record in evidence.records.items()
            if task in evidence.logs
            for look in (history, _steps, _acknowledged, _take_overs)
            for finding in look(evidence, record, evidence.logs[task])
        ),
        *_bound(evidence),
    ]


def processes(evidence: Evidence) -> Iterator[Finding]:
    """Whether the victim was killed, and every other process ended well."""
    for name, code in evidence.codes.items():
        if code != (SIGKILL if name == VICTIM else 0):
            trouble = evidence.trouble.get(name, "")[-600:]
            yield Finding(UNFINISHED, f"{name} ended with {code}: {trouble}")


def tasks(evidence: Evidence) -> Iterator[Finding]:
    """Which Tasks are there, and which are not."""
    pruning = {said.task for said in evidence.said[VICTIM] if said.what == "pruning"}
    pruned = {said.task for said in evidence.said[VICTIM] if said.what == "pruned"}
    dispatched = {said.task for said in evidence.said[VICTIM] if said.what == "dispatched"}
    readable = evidence.records.keys()
    for task in sorted(dispatched - pruning - readable):
        yield Finding(LOST, f"{task} was dispatched and is not there")
    for task in sorted(pruned & readable):
        yield Finding(LOST, f"{task} was pruned, and the prune is undone")


def history(evidence: Evidence, record: Record, log: Sequence[Event]) -> Iterator[Finding]:
    """Every version wrote its events, once; every extra is there, once."""
    task = record.task.id
    places = [event.id for event in log if event.id is not None]
    versions = {version for version, _ in places}
    for place, times in Counter(places).items():
        if times > 1:
            yield Finding(DUPLICATED, f"{task}: event {place} is there {times} times")
    for version in range(1, record.version + 1):
        if version not in versions:
            yield Finding(LOST, f"{task}: version {version} has no events")
    for version in sorted(versions):
        if version > record.version:
            yield Finding(LOST, f"{task}: the record of version {version}")
        count = sum(place[0] == version for place in places)
        if (version, count - 1) not in places:
            yield Finding(LOST, f"{task}: an event of version {version} is missing")
    acts = Counter((event.data["by"], event.data["act"]) for event in log if "act" in event.data)
    for (host, act), times in acts.items():
        if times > 1:
            yield Finding(DUPLICATED, f"{task}: act {act} of {host} is there {times} times")
    extras = [event.data["extra"] for event in log if event.type == vocabulary.TASK_RESUMED]
    kept = Counter(record.task.supplements)
    for extra in extras:
        if not kept[extra]:
            yield Finding(LOST, f"{task}: the extra {extra!r}")
    for extra, times in (kept - Counter(extras)).items():
        yield Finding(DUPLICATED, f"{task}: the extra {extra!r} is there {times} times too often")


def _steps(evidence: Evidence, record: Record, log: Sequence[Event]) -> Iterator[Finding]:
    """Each step was prepared, done at most once, and then observed or marked."""
    task = record.task.id
    events = {
        what: Counter(event.data["step"] for event in log if event.type == f"step.{what}")
        for what in ("prepared", "observed", "indeterminate")
    }
    done = Counter(step for one, step in evidence.effects if one == task)
    for what, steps in (*events.items(), ("done", done)):
        for step, times in steps.items():
            if times > 1:
                yield Finding(DUPLICATED, f"{task}: step {step} was {what} {times} times")
    observed, marked = events["observed"], events["indeterminate"]
    for step in sorted(done.keys() - events["prepared"].keys()):
        yield Finding(LOST, f"{task}: step {step} was done and is not prepared")
    for step in sorted(observed.keys() - done.keys()):
        yield Finding(LOST, f"{task}: step {step} was observed and never done")
    for step in sorted(observed.keys() & marked.keys()):
        yield Finding(DUPLICATED, f"{task}: step {step} is observed and indeterminate")
    if record.task.status is not TaskStatus.SUCCESS:
        yield Finding(UNFINISHED, f"{task} is {record.task.status.value}")
        return
    for step in range(int(record.task.instructions)):
        if step not in observed and step not in marked:
            yield Finding(LOST, f"{task}: step {step} is neither observed nor indeterminate")
    told = {"observed": sorted(observed), "indeterminate": sorted(marked)}
    if record.task.result != told:
        yield Finding(LOST, f"{task}: ended with {record.task.result}, and its events say {told}")


def _acknowledged(evidence: Evidence, record: Record, log: Sequence[Event]) -> Iterator[Finding]:
    """Each answer that a process got is still true."""
    task = record.task.id
    there = {(event.type, event.data.get("step")) for event in log}
    for what in ("prepared", "observed", "indeterminate"):
        for name, step in evidence.about(what, task):
            if (f"step.{what}", step) not in there:
                yield Finding(LOST, f"{task}: {name} was told that step {step} was {what}")
    asked = sum(event.type == vocabulary.TASK_PAUSE_REQUESTED for event in log)
    if asked < len(evidence.about("pause", task)):
        yield Finding(LOST, f"{task}: a pause that was asked for")
    for name, (_, extra) in evidence.about("resumed", task):
        if extra not in record.task.supplements:
            yield Finding(LOST, f"{task}: {name} was told that {extra!r} was added")
    if evidence.about("ended", task) and not record.task.status.terminal:
        yield Finding(LOST, f"{task}: its end, which was told")


def _take_overs(evidence: Evidence, record: Record, log: Sequence[Event]) -> Iterator[Finding]:
    """Of those who would take a Task over, or answer one pause, exactly one does."""
    task = record.task.id
    hosts = {value: name for name, value in evidence.about("host")}
    claims = [event.data["by"] for event in log if event.type == vocabulary.TASK_CLAIMED]
    winners = [name for name, _ in evidence.about("claimed", task)]
    if winners != [hosts.get(host) for host in claims] or len(claims) > 1:
        yield Finding(WINNERS, f"{task}: {winners} took it over, and its events say {claims}")
    if not claims and _left_running(log, hosts):
        yield Finding(WINNERS, f"{task}: nobody took it over")
    answered = Counter(version for _, (version, _) in evidence.about("resumed", task))
    for version, times in answered.items():
        if times > 1:
            yield Finding(WINNERS, f"{task}: {times} answered the pause at version {version}")


def _left_running(log: Sequence[Event], hosts: Mapping[str, str]) -> bool:
    """Whether the dead process owned the Task: its last transition led to ``running``."""
    running = False
    for event in log:
        host = str(event.data.get("by")).partition(":")[0]
        if VICTIM not in (host, hosts.get(host)):
            break
        if event.type in (vocabulary.TASK_DISPATCHED, vocabulary.TASK_RESUMED):
            running = True
        elif event.type in (vocabulary.TASK_PAUSED, vocabulary.TASK_COMPLETED):
            running = False
    return running


def _bound(evidence: Evidence) -> Iterator[Finding]:
    """One kill leaves at most one step in doubt, and it was the victim's."""
    if evidence.indeterminate > 1:
        yield Finding(INDETERMINATE, f"{evidence.indeterminate} steps after one kill")
    for task, log in evidence.logs.items():
        marked = {event.data["step"] for event in log if event.type == "step.indeterminate"}
        for event in log:
            if event.type == "step.prepared" and event.data["step"] in marked:
                name = event.data["by"]
                if name != VICTIM:
                    yield Finding(INDETERMINATE, f"{task}: a step of {name}, which did not die")
