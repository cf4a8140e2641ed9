"""What an implementation may declare that it can do, beyond what its contract always asks.

Every feature is closed unless it is declared open. Tests of an open feature run, and fail if it
does not hold; tests of a closed one are skipped and counted as closed, never as passed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of one contract, each open or closed; this contract has none."""

    def is_open(self, name: str) -> bool:
        """Whether the feature is declared open.

        Raises:
            KeyError: The contract has no feature of this name.
        """
        return bool(asdict(self)[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFeatures(Features):
    """What a Runtime may declare."""

    pauses: bool = False
    """``run_until_stopped`` reaches ``paused`` once a pause is asked, and goes on when resumed.
    Without it every verb is still accepted; `Work.pass_safe_points` may be any Task."""
    keeps_partial_output: bool = False
    """A killed Task that had produced output carries it in a note ``<impl>/partial_output``.
    Needs `OutputWork`."""
    refuses: bool = False
    """Some Tasks are refused with `CannotStart`. Needs `RefusingWork`."""
    holdable: bool = False
    """The ``hold`` fixture can keep mutators from committing. Needs that fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFeatures(Features):
    """What a Store may declare."""

    durable: bool = False
    """A fresh handle on the same place sees all that was acknowledged. Needs the ``reopen``
    fixture."""
    processes: bool = False
    """Several processes may share the store. Needs the ``factory`` fixture."""
    threads: bool = False
    """One object may be used from several threads, each with an event loop of its own."""
    leases: bool = False
    """A host's liveness can run out without `leave` while its process lives. Needs the ``expire``
    fixture."""
    holdable: bool = False
    """The ``hold`` fixture can keep writes from completing. Needs that fixture."""
    damageable: bool = False
    """The ``damage`` fixture can make one stored record unreadable. Needs that fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverFeatures(Features):
    """What an Observer may declare."""

    writes_to_terminal: bool = False
    """It writes text that people read. Needs the ``output`` fixture."""
    keeps_events: bool = False
    """It hands out what it was given, once each and in order. Needs the ``kept`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsFeatures(Features):
    """What a transport of requests may declare."""

    shows: bool = False
    """It can be seen what people are asked for. Needs the ``open`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationFeatures(Features):
    """What a Delegation may declare."""

    forbids: bool = False
    """There is work that it refuses. Needs the ``forbidden`` fixture."""
    refuses: bool = False
    """Where children run, some cannot be started. Needs children on the kit's ``substrate``."""
    pauses: bool = False
    """A child comes to ``paused`` once somebody asks it to, and goes on when resumed."""
    asks: bool = False
    """What a child asks people for reaches its parent, and what they decide reaches the child.
    Needs children on the kit's ``substrate``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFeatures(Features):
    """What a Memory may declare."""

    keeps: bool = False
    """It remembers what it is told. Only one that stands for none at all does not."""
    searches: bool = False
    """An item is found by the words that it has."""
    durable: bool = False
    """What was remembered is there when the memory is opened again. Needs the ``reopen``
    fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerFeatures(Features):
    """What a Planner may declare."""

    streams: bool = False
    """Pieces of an answer come before its plan."""
    continues: bool = False
    """An answer that was cut is gone on with: the pieces are the rest, the plan has all of it."""
    deterministic: bool = False
    """The same context gets the same actions and texts."""
    forecasts: bool = False
    """It has a ``worst_case``, which no call passes."""
    grounded: bool = False
    """It calls only tools that it is shown, with arguments that fit, and its final answers fit the
    output schema."""
    fails: bool = False
    """Its provider can be out of reach. Needs the ``failing`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFeatures(Features):
    """What a Policy may declare."""

    deterministic: bool = False
    """The same action in the same context gets the same decision."""
    filters: bool = False
    """It has a ``visible``, by which tools are hidden from the planner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFeatures(Features):
    """What a Tool may declare."""

    observable: bool = False
    """Its effects on the world can be counted. Needs the ``effects`` fixture."""
    steady: bool = False
    """The same arguments give the same result, as often and wherever they are called with."""
    fails: bool = False
    """With some arguments that fit it fails. Needs the ``failing`` fixture."""
    waits: bool = False
    """With some arguments it works until it is given up. Needs the ``waiting`` fixture."""
