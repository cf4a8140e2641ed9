"""Costs: the tokens and the cost of a Task's own calls of models, from its events.

A Task that has ended by itself says so in its last commit. The events of every other Task are
summed. A call that is not over is not included: its reservation stands beside the use. The calls of
the Task's children are not included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel_engine import Event, EventId, Host, Record, StoreError, values
from agentic_kernel_engine.events import from_stored
from agentic_kernel_engine.plans import vocabulary

from .parameters import LARGEST

if TYPE_CHECKING:
    from .origin import Tools

MOST: Final = 1_000
"""The most events of one Task that are read for a list."""
_COUNTED: Final[Mapping[str, tuple[str, ...]]] = {
    vocabulary.PLAN_MADE: ("usage",),
    vocabulary.PLAN_FAILED: ("usage", "forfeited"),
    vocabulary.RUN_CUT: ("usage", "forfeited"),
    vocabulary.RUN_ENTERED: ("forfeited",),
}
"""The events that count a call of a model, and their fields that say what it used."""


_UNITS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_LEAST: Final = 0.0001


@dataclass(frozen=True)
class Used:
    """The use of the calls of models."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In the currency of ``Limits.max_cost``; 0 if the prices are not known."""

    def plus(self, usage: Any) -> Used:
        """This and the usage of one more call, as an event has it; another value counts nothing."""
        said = usage if isinstance(usage, Mapping) else {}
        given, made = (
            number if type(number) is int and number > 0 else 0
            for number in map(said.get, ("input_tokens", "output_tokens"))
        )
        cost: Any = said.get("cost")
        paid = cost if type(cost) in (int, float) and 0 < cost < LARGEST else 0
        return Used(self.input_tokens + given, self.output_tokens + made, self.cost + paid)

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def tokens(self) -> str:
        """All tokens, such as ``950 tokens`` or ``1.2k tokens``; empty if there are none."""
        for size, unit in _UNITS:
            if self.total >= size:
                return f"{self.total / size:.1f}{unit} tokens"
        return f"{self.total} tokens" if self.total else ""

    @property
    def price(self) -> str:
        """The cost, such as ``0.0123`` or ``4.50``; empty if it is not known."""
        if not self.cost:
            return ""
        if self.cost < _LEAST:
            return f"<{_LEAST}"
        return f"{self.cost:,.2f}" if self.cost >= 1 else f"{self.cost:.4f}"


NOTHING: Final = Used()


def used_in(events: Iterable[Event]) -> Used:
    """The use of a Task with this whole history."""
    used = NOTHING
    for event in events:
        for field in _COUNTED.get(event.type, ()):
            used = used.plus(event.data.get(field))
    return used


def reserved_in(record: Record, events: Iterable[Event]) -> Used:
    """The most that a call beside those of ``used_in`` may have used; see `Outcome.reserved`.

    Args:
        events: The whole history of the Task.
    """
    if record.state is None or any(event.type == vocabulary.RUN_STOPPED for event in events):
        return NOTHING
    state = values.decode(record.state)
    return NOTHING.plus(state.get("reserved") if isinstance(state, Mapping) else None)


async def used_by(host: Host, record: Record, tools: Tools | None = None) -> Used | None:
    """The use of a stored Task.

    None if it cannot be known: an event is damaged, or there are more than `MOST` events.

    Args:
        tools: Reads the first `MOST` events of a Task that has not ended, too.
    """
    task = record.task
    try:
        if task.status.terminal:
            for event in await _events(host, task.id, EventId(record.version, -1)):
                if event.type == vocabulary.RUN_STOPPED:
                    return NOTHING.plus(event.data.get("usage"))
        events = await _events(host, task.id, None)
    except StoreError:
        return None
    if tools is not None:
        for event in events:
            tools.take(event)
    return used_in(events) if len(events) < MOST else None


async def _events(host: Host, task_id: str, after: EventId | None) -> list[Event]:
    page = await host.store.events(task_id, after, MOST)
    return [from_stored(event_id, text) for event_id, text in page]
