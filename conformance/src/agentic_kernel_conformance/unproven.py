"""The parts of each contract that its tests do not prove; every report says them.

A class of a contract may add more of them as its attribute ``unproven``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from .contract import Contract, Unproven, in_the_kit

_SHORT: Final = "Behaviour after days, or beyond the sizes of the level, is not proven."

UNPROVEN: Final[dict[str, tuple[Unproven, ...]]] = {
    "KernelContract": (
        Unproven("table", "Sequences longer than the depth of the level are not tried."),
    ),
    "RuntimeContract": (
        Unproven("effects", "The effects of the work on the world are not looked at."),
        Unproven("unwind", "Processes and threads that the work leaves behind are not looked for."),
        Unproven("C4", "No writer is held, so readers could wait for one.", unless="holdable"),
        Unproven("clause1", _SHORT),
    ),
    "QueryContract": (
        Unproven("C4", "No writer is held, so readers could wait for one.", unless="holdable"),
        Unproven("C1", "A reader that changes a Task where no Query shows it is not noticed."),
    ),
    "StoreContract": (
        Unproven("durable", "A restart of the store is not tried.", unless="durable"),
        Unproven("durable", "It is not seen if a write is synced.", unless="synced"),
        Unproven("durable", "No storage of an older version is opened.", unless="reads_older"),
        Unproven("durable", "No storage of a newer version is opened.", unless="refuses_newer"),
        Unproven("R5", "No connection is cut around a commit.", unless="cuttable"),
        Unproven("R5", "No disk fails or is slow.", unless="failable"),
        Unproven("R8", "The records that `changed` looks at are not counted.", unless="counted"),
        Unproven("R16", "The bytes that a commit writes are not counted.", unless="weighed"),
        Unproven("R14", "Claims by several processes are not tried.", unless="processes"),
        Unproven("R14", "A lease that runs out is not tried.", unless="leases"),
        Unproven("C4", "No writer is held, so readers could wait for one.", unless="holdable"),
        Unproven("R22", "No stored record is damaged.", unless="damageable"),
        Unproven("clause1", _SHORT),
    ),
    "ObserverContract": (
        Unproven("observer", "The content that an observer sends elsewhere is not read."),
    ),
    "ApprovalsContract": (
        Unproven("approvals", "It is not proven that a message reaches a person."),
    ),
    "DelegationContract": (
        Unproven("effects", "The effects of the children's work on the world are not looked at."),
        Unproven("children", "A crash between a parent's commit and a child's is not tried."),
    ),
    "MemoryContract": (
        Unproven("durable", "A restart of the memory is not tried.", unless="durable"),
        Unproven("recall", "How well a query finds what people mean is not measured."),
    ),
    "PlannerContract": (
        Unproven("plan", "It is not proven that answers are right or useful."),
        Unproven("budget", "Reported usage is not compared with the provider's bill."),
    ),
    "PolicyContract": (
        Unproven("decide", "It is not proven that the decisions are the wanted ones."),
        Unproven(
            "apart", "Decisions at once are not compared with lone ones.", unless="deterministic"
        ),
    ),
    "ToolContract": (
        Unproven("effects", "The effects of the tool are not counted.", unless="observable"),
        Unproven("effects", "Effects that the adapter's own counter does not see are not found."),
        Unproven("apart", "Results at once are not compared with lone ones.", unless="steady"),
    ),
    "SubstrateContract": (
        Unproven("once", "The effects of the work are not counted.", unless="marks"),
        Unproven("once", "Effects of the work other than the marks of the kit are not found."),
        Unproven("output", "Output from before a stop is not read.", unless="keeps_output"),
        Unproven("small", "Only a script without effects is measured.", unless="marks"),
        Unproven("clean", "No Task that fails is looked at.", unless="fails"),
        Unproven("clean", "No Task that is paused is looked at.", unless="pauses"),
        Unproven("clause1", _SHORT),
    ),
    "CompactorContract": (
        Unproven("compact", "It is not proven that a summary keeps what a later step needs."),
    ),
    "MemoryGovernorContract": (
        Unproven("govern", "It is not proven that the decisions are the wanted ones."),
        Unproven(
            "apart", "Proposals at once are not compared with lone ones.", unless="deterministic"
        ),
    ),
    "CapabilityRegistryContract": (
        Unproven("repertoire", "It is not proven that the installed capabilities do as they say."),
    ),
    "ToolSchedulerContract": (
        Unproven("batch", "Only the calls of the kit's own tools are scheduled."),
    ),
    "MiddlewareContract": (
        Unproven("hooks", "The content that middleware adds to a call is not judged."),
        Unproven("apart", "Runs at once are not compared with lone ones.", unless="steady"),
    ),
    "ValidatorContract": (
        Unproven("fits", "Schemas other than the cases of the kit are not tried."),
        Unproven("fits", "The time that a pattern takes is not measured."),
    ),
}
"""The texts by the name of the contract."""


def unproven(cls: type[Contract]) -> list[Unproven]:
    """Return what a contract does not prove about a class, in the order of its suites.

    A text with a feature is left out if the class declares the feature open.
    """
    opened = {name for name, is_open in asdict(cls.features).items() if is_open}
    found = list(UNPROVEN.get(cls.contract, ()))
    for base in cls.__mro__:
        found += vars(base).get("unproven", ()) if in_the_kit(base) else ()
    return [each for each in dict.fromkeys(found) if each.unless not in opened]
