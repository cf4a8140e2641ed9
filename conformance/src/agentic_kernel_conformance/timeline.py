"""Timeline: a drawing of a small history; it shows which operations overlapped.

before: running [a]
A  |- resume('x') ------|               yes; running [a, x]
B     |- resume('y') -------|           yes; running [a, y]
A                              |- get() -|  running [a, x]
"""

from __future__ import annotations

from collections.abc import Sequence

from .history import Operation, described, outcome, seen
from .linearizability import State, linearize
from .rules import broken, expect
from .shrinking import Witness, shrink

_COLUMN = 3


def expect_linearizable(history: Sequence[Operation]) -> None:
    """Report C2 (mutators serialise) or C7 (happens-before) unless an order explains the history.

    The report shows a small witness.

    Raises:
        RuleError: No order explains the history, or the search gave up.
    """
    verdict = linearize(history)
    expect(verdict.decided, "kit", f"{len(history)} operations are too many to put in order")
    if not verdict.holds:
        witness = shrink(history)
        raise broken(witness.rule, told(witness))


def drawn(operations: Sequence[Operation], start: State) -> str:
    """Draw the operations in order of their calls, one a line; time goes to the right."""
    ordered = sorted(operations, key=lambda each: each.called)
    moments = sorted(
        {each.called for each in ordered}
        | {each.returned for each in ordered if each.returned is not None}
    )
    column = {moment: index * _COLUMN for index, moment in enumerate(moments)}
    end = len(moments) * _COLUMN
    name = max((len(each.caller) for each in ordered), default=0)
    call = max((len(described(each)) for each in ordered), default=0)
    lines = [f"before: {_state(start)}"]
    for each in ordered:
        left = column[each.called]
        right = end if each.returned is None else column[each.returned]
        bar = " " * left + "├" + "─" * (right - left - 1) + ("┄" if each.returned is None else "┤")
        text = f"{each.caller:{name}}  {described(each):{call}}  {bar:{end + 1}}  → {outcome(each)}"
        lines.append(text)
    return "\n".join(lines)


def told(witness: Witness) -> str:
    """Return the witness as a timeline, with the longest explanation that was found."""
    verdict = witness.verdict
    steps = [f"{each.caller} {described(each)}" for each in verdict.order if not each.reads]
    left = [each for each in witness.operations if each not in verdict.order and each.returned]
    order = f"after {', then '.join(steps)} the Task is" if steps else "the Task is"
    aside = f" (and {len(witness.aside)} that change nothing about it)" if witness.aside else ""
    plural = "" if len(witness.operations) == 1 else "s"
    count = f"{len(witness.operations)} operation{plural}{aside}"
    return "\n".join(
        [
            f"no order of these {count} explains what was told:",
            drawn(witness.operations, witness.start),
            f"the longest explanation: {order} {_state(verdict.state)}; that leaves "
            + "; ".join(f"{each.caller} {described(each)} → {outcome(each)}" for each in left[:3]),
        ]
    )


def _state(state: State) -> str:
    waiting = ", a pause waits" if state.pause_waits else ""
    return f"{seen(state.view)}{waiting}"
