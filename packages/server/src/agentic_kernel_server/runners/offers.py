"""Runners: the open streams of runners, what each offers, and the job that each has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Final

from ..agents.consumers import Consumer, Consumers, Key

MOST_GLOBS: Final = 50
"""The most capabilities of a runner that are globs: each search for a runner tries them all."""


def is_glob(name: str) -> bool:
    """True if a capability may fit other tools than the one that it names."""
    return any(mark in name for mark in "*?[")


class Offer:
    """The tools that one runner offers.

    Args:
        capabilities: Names of tools, and globs.
    """

    def __init__(self, capabilities: Iterable[str] = ()) -> None:
        self._names = frozenset(capabilities)
        self._globs = tuple(filter(is_glob, self._names))

    def fits(self, tool_id: str) -> bool:
        """True if one of the capabilities is the tool, or a glob that fits it."""
        return tool_id in self._names or any(fnmatchcase(tool_id, each) for each in self._globs)


NOTHING: Final = Offer()


class Runners(Consumers):
    """The open streams of runners. A runner has one job at a time.

    Args:
        freed: Called when a runner can take a job.
    """

    def __init__(
        self,
        grace: float,
        most: int,
        came: Callable[[Consumer], None],
        lost: Callable[[Key], None],
        freed: Callable[[], None],
    ) -> None:
        super().__init__(grace, most, came, lost)
        self._freed = freed
        self._offers: dict[Key, Offer] = {}
        self._busy: dict[Key, str] = {}

    def declare(self, key: Key, capabilities: Iterable[str]) -> None:
        """Say what a runner offers; replaces what it offered."""
        self._offers[key] = Offer(capabilities)
        self._freed()

    def find_idle(self, tenant: str, tool_id: str) -> Consumer | None:
        """The runner that offers a tool and has no job, in turn."""
        for group in [group for group in self._open if group[0] == tenant]:
            for name, consumer in list(self._open[group].items()):
                key = consumer.key
                if key in self._busy or not self._offers.get(key, NOTHING).fits(tool_id):
                    continue
                self._open[group][name] = self._open[group].pop(name)
                self._open[group] = self._open.pop(group)
                return consumer
        return None

    def offered(self, tenant: str, tool_id: str) -> bool:
        """True if a runner here offers the tool, busy or not."""
        return any(
            each.key.tenant == tenant and self._offers.get(each.key, NOTHING).fits(tool_id)
            for each in self
        )

    def take(self, key: Key, job: str) -> None:
        """The runner has a job."""
        self._busy[key] = job

    def free(self, job: str, by: Key | None = None) -> None:
        """The runner that had this job can take another one.

        Args:
            by: The runner that says so, maybe without its consumer; a job of another runner is left
                alone.
        """
        for key in [key for key, held in self._busy.items() if held == job]:
            if by is not None and by not in (key, key._replace(consumer="")):
                continue
            del self._busy[key]
            self._freed()

    def forget(self, key: Key) -> None:
        """Drop what was known of a runner whose grace is over."""
        self._offers.pop(key, None)
        self._busy.pop(key, None)
