"""The engine: a Host that runs any Substrate over any Store, and the ports that it stands on.

Each name is loaded when it is first used, so that a caller pays only for the parts it uses.
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .codec import (
        agent_from_json,
        agent_to_json,
        event_from_json,
        event_to_json,
        task_from_json,
        task_to_json,
    )
    from .cursor import Cursor, EventId
    from .errors import (
        Conflict,
        HostClosed,
        HostGone,
        InboxFull,
        StateUnreadable,
        StoreError,
        TaskFailed,
        UnknownOutcome,
        Unreadable,
        WrongEventLoop,
    )
    from .events import Event, TaskEvent
    from .host.host import Host, HostOptions
    from .host.job import Job
    from .host.rerun import rerun
    from .host.run import RunEnded
    from .host.signals import drain_on_signals
    from .loop.loop import Loop
    from .loop.replay import Outcome
    from .memory_store import MemoryStore
    from .observer import (
        CompositeObserver,
        ConsoleObserver,
        InMemoryObserver,
        Observer,
        StreamingObserver,
    )
    from .plans.limits import Limits
    from .plans.reasons import StopReason
    from .principal import Principal
    from .providers.done import Done
    from .providers.ready import ReadyRuntime
    from .receipt import Receipt
    from .record import Record, host_of, owner_name
    from .router import Router
    from .seams import tool
    from .search import Search, SearchOptions
    from .store import Store, StoreTraits
    from .stored import decode_change, decode_record, encode_change, encode_record
    from .substrate import Accepting, Acting, Cleaning, Limiting, Metered, Reading, Substrate
    from .terms import Terms
    from .waiting import WaitingFor, waiting_for

__all__ = [
    "Accepting", "Acting", "Cleaning", "CompositeObserver", "Conflict", "ConsoleObserver", "Cursor",
    "Done", "Event", "EventId", "Host", "HostClosed", "HostGone", "HostOptions", "InMemoryObserver",
    "InboxFull", "Job", "Limiting", "Limits", "Loop", "MemoryStore", "Metered", "Observer",
    "Outcome", "Principal", "Reading", "ReadyRuntime", "Receipt", "Record", "Router", "RunEnded",
    "Search", "SearchOptions", "StateUnreadable", "StopReason", "Store", "StoreError",
    "StoreTraits", "StreamingObserver", "Substrate", "TaskEvent", "TaskFailed", "Terms",
    "UnknownOutcome", "Unreadable", "WaitingFor", "WrongEventLoop", "agent_from_json",
    "agent_to_json",
    "decode_change", "decode_record", "drain_on_signals", "encode_change", "encode_record",
    "event_from_json", "event_to_json", "host_of", "owner_name", "rerun", "task_from_json",
    "task_to_json", "tool", "waiting_for",
]  # fmt: skip

_NAMES = {
    "codec": (
        "agent_from_json agent_to_json event_from_json event_to_json task_from_json task_to_json"
    ),
    "cursor": "Cursor EventId",
    "errors": (
        "Conflict HostClosed HostGone InboxFull StateUnreadable StoreError TaskFailed "
        "UnknownOutcome Unreadable WrongEventLoop"
    ),
    "events": "Event TaskEvent",
    "host.host": "Host HostOptions",
    "host.job": "Job",
    "host.rerun": "rerun",
    "host.run": "RunEnded",
    "host.signals": "drain_on_signals",
    "loop.loop": "Loop",
    "loop.replay": "Outcome",
    "memory_store": "MemoryStore",
    "observer": "CompositeObserver ConsoleObserver InMemoryObserver Observer StreamingObserver",
    "plans.limits": "Limits",
    "plans.reasons": "StopReason",
    "principal": "Principal",
    "providers.done": "Done",
    "providers.ready": "ReadyRuntime",
    "receipt": "Receipt",
    "record": "Record host_of owner_name",
    "router": "Router",
    "seams": "tool",
    "search": "Search SearchOptions",
    "store": "Store StoreTraits",
    "stored": "decode_change decode_record encode_change encode_record",
    "substrate": "Accepting Acting Cleaning Limiting Metered Reading Substrate",
    "terms": "Terms",
    "waiting": "WaitingFor waiting_for",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


_LOADING = RLock()
"""Two threads that load a room's package and a module of it at once could see half of either."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _LOADING:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
