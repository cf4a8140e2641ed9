"""Features: abilities beyond its contract that an implementation may declare.

Every feature is closed unless the adapter declares it open. The tests of an open feature run, and
fail if the feature does not hold. The tests of a closed feature are skipped; the report counts them
as closed, never as passed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of one contract, each open or closed; this base class has none."""

    def is_open(self, name: str) -> bool:
        """True if the feature is declared open.

        Raises:
            KeyError: The contract has no feature of this name.
        """
        return bool(asdict(self)[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFeatures(Features):
    """The features that a Runtime may declare."""

    pauses: bool = False
    """A Task of ``run_until_stopped`` becomes ``paused`` after a pause is asked for, and goes on
    after a resume. Without this feature every verb is still accepted, and
    `Work.pass_safe_points` may return any Task."""
    keeps_partial_output: bool = False
    """A killed Task that has produced output keeps it in a note ``<impl>/partial_output``.
    Needs `OutputWork`."""
    streams: bool = False
    """Text in progress can be read from elsewhere while a Task says it, and a kill from there keeps
    it. Needs `OutputWork`, the ``elsewhere`` fixture and the engine."""
    refuses: bool = False
    """The Runtime refuses some Tasks with `CannotStart`. Needs `RefusingWork`."""
    holdable: bool = False
    """The ``hold`` fixture can keep mutators from committing. Needs that fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubstrateFeatures(Features):
    """The features that a substrate may declare."""

    marks: bool = False
    """The substrate's work can make marks. Without it the tests about effects are closed, so the
    report says that they are unproven."""
    pauses: bool = False
    """A Task becomes ``paused`` within `Bounds.steps` steps after a pause is asked for. Needs
    ``marks``."""
    keeps_output: bool = False
    """The output of `Say` from before an interruption can be read afterwards, by
    `SubstrateWork.output`."""
    hears: bool = False
    """The step `Hear` takes up the extras that came with resumes. Without it, extras are ignored.
    Needs ``marks`` and ``pauses``."""
    fails: bool = False
    """The step `Fail` makes the Task end in ``failure``."""
    refuses: bool = False
    """The substrate refuses some Tasks with `CannotStart`. Needs `RefusingWork`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFeatures(Features):
    """The features that a Store may declare."""

    durable: bool = False
    """A new handle on the same place reads every acknowledged write. Needs the ``reopen``
    fixture."""
    processes: bool = False
    """Several processes may share the store. Needs the ``factory`` fixture."""
    threads: bool = False
    """One object may be used from several threads, each with an event loop of its own."""
    leases: bool = False
    """A host's lease can expire without `leave`, while its process lives. Needs the ``expire``
    fixture."""
    holdable: bool = False
    """The ``hold`` fixture can keep writes from completing. Needs that fixture."""
    damageable: bool = False
    """The ``damage`` fixture can make one stored record unreadable. Needs that fixture."""
    cuttable: bool = False
    """The ``cut`` fixture can cut the connection of a write, before and after it lands. Needs that
    fixture."""
    weighed: bool = False
    """The bytes that the store writes can be counted. Needs the ``written`` fixture."""
    counted: bool = False
    """The records that the store looks at can be counted. Needs the ``looked`` fixture."""
    synced: bool = False
    """The store tells the kit's `Operations` what it does to files. Needs the ``operations``
    fixture."""
    failable: bool = False
    """The store asks the kit's `Disk` before each file operation. Needs the ``disk`` fixture."""
    reads_older: bool = False
    """The store reads and continues what an older version of it wrote. Needs the ``older`` fixture,
    and ``durable``."""
    refuses_newer: bool = False
    """The store refuses what a newer version of it wrote. Needs the ``newer`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverFeatures(Features):
    """The features that an Observer may declare."""

    writes_to_terminal: bool = False
    """The observer writes text for people. Needs the ``output`` fixture."""
    keeps_events: bool = False
    """The observer returns the events that it was given, each once and in order. Needs the ``kept``
    fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsFeatures(Features):
    """The features that a transport of requests may declare."""

    shows: bool = False
    """The open requests, as people are shown them, can be read. Needs the ``open`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationFeatures(Features):
    """The features that a Delegation may declare."""

    forbids: bool = False
    """The Delegation refuses some work. Needs the ``forbidden`` fixture."""
    refuses: bool = False
    """The Runtime of the children refuses some of them. Needs children on the kit's
    ``substrate``."""
    pauses: bool = False
    """A child becomes ``paused`` after a pause is asked for, and goes on after a resume."""
    asks: bool = False
    """A child's requests to people reach its parent, and the decisions reach the child. Needs
    children on the kit's ``substrate``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFeatures(Features):
    """The features that a Memory may declare."""

    keeps: bool = False
    """The memory remembers items. Only an implementation that stands for no memory does not."""
    searches: bool = False
    """A query finds an item by the words of its text."""
    durable: bool = False
    """Remembered items are there after the memory is opened again. Needs the ``reopen``
    fixture."""
    shared: bool = False
    """Several handles share one place, as several processes do. Needs the ``another`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerFeatures(Features):
    """The features that a Planner may declare."""

    streams: bool = False
    """The planner gives pieces of an answer before its plan."""
    continues: bool = False
    """The planner continues an answer that was cut: the pieces are the rest, the plan has the whole
    text."""
    deterministic: bool = False
    """The same context gets the same actions and texts."""
    reproducible: bool = False
    """A second planner, made as the first one, gives the same plans in another order. Needs the
    ``another`` fixture."""
    forecasts: bool = False
    """The planner has a ``worst_case``, and no call exceeds it."""
    grounded: bool = False
    """The planner calls only tools of its context, with arguments that fit their schemas. Its final
    answers fit the output schema."""
    fails: bool = False
    """The planner's provider can be unreachable. Needs the ``failing`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFeatures(Features):
    """The features that a Policy may declare."""

    deterministic: bool = False
    """The same action in the same context gets the same decision."""
    filters: bool = False
    """The policy has a ``visible``, which hides tools from the planner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFeatures(Features):
    """The features that a Tool may declare."""

    observable: bool = False
    """The tool's effects on the world can be counted. Needs the ``effects`` fixture."""
    steady: bool = False
    """The same arguments give the same result, also after other calls or beside them."""
    fails: bool = False
    """The tool raises `ToolError` for some arguments that fit its schema. Needs the ``failing``
    fixture."""
    waits: bool = False
    """With some arguments the tool runs until it is cancelled. Needs the ``waiting`` fixture."""
    distinct: bool = False
    """Two calls under two keys are two requests, whatever their arguments: each has the effects of
    the first one. Needs ``observable``, and a tool that declares an effect."""
    separates: bool = False
    """The first call of each principal has the same result, whatever others did before."""
    explores: bool = False
    """The kit may call the tool with any arguments that fit its schema, and with long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorFeatures(Features):
    """The features that a Compactor may declare."""

    shortens: bool = False
    """A run of 500 steps is shortened at least twice. Only a compactor that never acts does not
    declare it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGovernorFeatures(Features):
    """The features that a MemoryGovernor may declare."""

    deterministic: bool = False
    """The same step, or the same end, gets the same proposals."""
    replaces: bool = False
    """A newer item takes the place of a live item with the same key."""
    bounds: bool = False
    """A scope has at most so many live items, 10 or more. Needs the ``most`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRegistryFeatures(Features):
    """The features that a CapabilityRegistry may declare."""

    registers: bool = False
    """Any Agents and any capabilities can be registered. Needs the ``register`` fixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchedulerFeatures(Features):
    """The features that a ToolScheduler may declare."""

    parallel: bool = False
    """Two neighbouring calls that may run beside others run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiddlewareFeatures(Features):
    """The features that a Middleware may declare."""

    transparent: bool = False
    """The kit's run has the same events with the middleware and without it."""
    steady: bool = False
    """The same call gets the same treatment, also after other calls or beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorFeatures(Features):
    """The features that a Validator may declare."""

    exact: bool = False
    """A value that fits its schema is accepted. A validator with demands of its own refuses
    some."""
