"""The engine: a Host that runs any Substrate over any Store, and the ports that it stands on."""

from .codec import agent_from_json, agent_to_json, task_from_json, task_to_json
from .errors import (
    Conflict,
    HostClosed,
    HostGone,
    InboxFull,
    StoreError,
    TaskFailed,
    UnknownOutcome,
    Unreadable,
)
from .events import Event
from .host.host import Host, HostOptions
from .host.job import Job
from .host.rerun import rerun
from .host.run import RunEnded
from .host.signals import drain_on_signals
from .loop import Limits, Loop, Outcome, StopReason
from .memory_store import MemoryStore
from .observer import (
    CompositeObserver,
    ConsoleObserver,
    InMemoryObserver,
    Observer,
    StreamingObserver,
)
from .receipt import Receipt
from .record import Record, host_of, owner_name
from .router import Router
from .seams import tool
from .search import Search, SearchOptions
from .store import EventId, Store, StoreTraits
from .substrate import Substrate

__all__ = [
    "CompositeObserver",
    "Conflict",
    "ConsoleObserver",
    "Event",
    "EventId",
    "Host",
    "HostClosed",
    "HostGone",
    "HostOptions",
    "InMemoryObserver",
    "InboxFull",
    "Job",
    "Limits",
    "Loop",
    "MemoryStore",
    "Observer",
    "Outcome",
    "Receipt",
    "Record",
    "Router",
    "RunEnded",
    "Search",
    "SearchOptions",
    "StopReason",
    "Store",
    "StoreError",
    "StoreTraits",
    "StreamingObserver",
    "Substrate",
    "TaskFailed",
    "UnknownOutcome",
    "Unreadable",
    "agent_from_json",
    "agent_to_json",
    "drain_on_signals",
    "host_of",
    "owner_name",
    "rerun",
    "task_from_json",
    "task_to_json",
    "tool",
]
