"""Settings: the timeouts and sizes of a server."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The timeouts and sizes of a server. Durations are in seconds."""

    agent_timeout: float = 30.0
    """The grace in which an agent that lost its stream keeps its sessions."""
    execution_timeout: float = 3_600.0
    """The longest an execution may take from its creation, unless its request says another time."""
    step_timeout: float = 300.0
    """The longest a step may take after its approval."""
    retention: float = 168 * 3_600.0
    """The time for which an ended execution is kept."""
    hold: float = 30.0
    """The longest an intent is held that another process has to answer; clients give up at 35."""
    heartbeat: float = 15.0
    """The interval of the comments that keep an idle stream open."""
    attempts: int = 3
    """The most attempts of a remote step that fails and may be repeated."""
    first_delay: float = 1.0
    """The delay before the second attempt; it doubles with each further one."""
    longest_delay: float = 30.0
    """The longest delay before an attempt."""
    interval: float = 0.05
    """Seconds between two looks at the writes of other processes."""
    forwards: bool = True
    """True to send a request straight to the process that owns its execution, by an internal port
    on the loopback address; False to leave each one in the store."""
    safe_to_repeat: tuple[str, ...] = ()
    """Tools (names with ``*``) that may run again if their runner vanished in the middle."""
    most_queued: int = 1_000
    """The most events that wait for the reader of one stream; a slower reader is cut."""
