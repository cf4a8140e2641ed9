"""SubstrateWork: how a script becomes a Task of your substrate; its author supplies it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Event

from .mark_pacing import paced
from .substrate_script import Fail, Mark, Say, Script

_ENDLESS = 10_000
_POINTS = 6


class SubstrateWork(ABC):
    """Makes the Tasks of `SubstrateContract`, and of `RuntimeContract`, for one substrate.

    Supply `task`. Override the others if the defaults do not fit your substrate.
    """

    @abstractmethod
    def task(self, script: Script) -> Task:
        """Return a fresh Task, ``not_started``, whose work is to do the script's steps in order.

        It is called in the process of pytest. The address of the marks is in the environment of the
        worker processes only, so a Task names it, e.g. ``${CONFORMANCE_MARKS}``, and the substrate
        that the factory makes puts the address in.
        """

    def extra(self, token: str) -> str:
        """Return the extra that makes the work mark ``token``; needs the feature ``hears``."""
        return token

    def same(self, one: Any, other: Any) -> bool:
        """True if two results of the same script are equal, for a user of the substrate."""
        return bool(one == other)

    def output(self, task: Task, events: Sequence[Event]) -> str:
        """Return all output of a Task that a user can read; needs the feature ``keeps_output``.

        By default: the texts of its ``run.delta`` events, and every text in its notes and in its
        result.
        """
        pieces = [str(event.data.get("text", "")) for event in events if event.type == "run.delta"]
        return "\n".join(["".join(pieces), *texts(task.metadata), *texts(task.result)])

    def indeterminate(self, task: Task, events: Sequence[Event]) -> Collection[str]:
        """Return texts in which a token stands if the record calls its mark indeterminate.

        By default: every text of a note, an event or the failure that has the word
        ``indeterminate`` in it, together with the other texts of the same event.
        """
        found = []
        spoken = [[event.type, *texts(event.data)] for event in events]
        spoken += [[key, *texts(value)] for key, value in task.metadata.items()]
        if task.failure is not None:
            failure = task.failure
            spoken.append([failure.code, failure.message, *texts(failure.metadata)])
        for group in spoken:
            if any("indeterminate" in text for text in group):
                found += group
        return found

    def succeed(self) -> Task:
        return self.task((Say("a word"),))

    def fail(self) -> Task:
        return self.task((Fail(),))

    def run_until_stopped(self) -> Task:
        """A Task of 10,000 marks. A server in this process answers each after 10 ms."""
        paced()
        return self.task(tuple(Mark(f"endless-{number}") for number in range(_ENDLESS)))

    def pass_safe_points(self) -> Task:
        """A Task of six marks. A server in this process answers each after 10 ms."""
        paced()
        return self.task(tuple(Mark(f"point-{number}") for number in range(_POINTS)))

    def turns(self, task: Task) -> int:
        """Return the turns of a Task that ``pass_safe_points`` made: one for each mark.

        `bench` divides by it. Override it together with ``pass_safe_points``.
        """
        return _POINTS


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, the names of its fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from texts(each)
