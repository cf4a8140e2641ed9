"""Approvals: what people decide, bound to the exact action, used once.

The decision lives in the record's inbox; it is consumed in the commit that acts on it (R12). It
names the digest of the action that it is about, so it never fits another one, changed arguments, or
the same action asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from ..seams.policy import Policy
from . import vocabulary
from .action import digest, kind_of
from .context import Context
from .decision import ALLOW, ROUTES, Route, deny
from .execution import Execution
from .reasons import STOP_REASON, WAITING_FOR, StopReason
from .state import AtHand, Judgement

_ALLOWED: Final = {"verdict": "allow"}


async def authorize(policy: Policy, run: Execution, at_hand: AtHand, context: Context) -> None:
    """Have the policy decide about every action of a plan, once.

    A policy that raises has not allowed anything: that counts as a denial.
    """
    if at_hand.verdicts or not at_hand.plan.actions:
        return
    for index, action in enumerate(at_hand.plan.actions):
        try:
            decision = await policy.authorize(action, context)
        except Exception as error:
            decision = deny(f"the policy failed: {type(error).__name__}")
        judgement = Judgement(decision)
        if ROUTES[decision.verdict][type(action)] is Route.APPROVE:
            judgement.digest = digest(action, f"{run.task.id}:{run.state.step}:{index}")
        at_hand.verdicts.append(judgement)
    run.record(
        vocabulary.PLAN_DECIDED,
        decisions=[
            _ALLOWED if judgement.decision is ALLOW else msgspec.to_builtins(judgement.decision)
            for judgement in at_hand.verdicts
        ],
    )


async def wait_for_people(run: Execution, at_hand: AtHand) -> None:
    """Pause until somebody has decided about every action that needs it.

    Raises:
        RunEnded: Always, if anything is undecided.
    """
    requests = [
        {
            "digest": judgement.digest,
            "type": kind_of(at_hand.plan.actions[index]),
            "action": msgspec.to_builtins(at_hand.plan.actions[index]),
            "reason": judgement.decision.reason,
        }
        for index, judgement in enumerate(at_hand.verdicts)
        if judgement.digest and judgement.granted is None
    ]
    if requests:
        run.state.at_hand = at_hand
        await suspend(run, {"kind": "approval", "requests": requests})


async def suspend(run: Execution, waiting: Mapping[str, Any], due: Any = None) -> None:
    """Pause for something outside, and say for what, on the Task and in its history.

    Raises:
        RunEnded: Always.
    """
    run.state.waiting = dict(waiting)
    run.record(vocabulary.RUN_WAITS, **waiting)
    run.job.note(STOP_REASON, StopReason.INTERRUPT.value)
    run.job.note(WAITING_FOR, waiting)
    await run.pause(StopReason.INTERRUPT.value, due)


def heed(run: Execution) -> None:
    """Act on the decisions in the inbox; the next commit consumes them."""
    for entry in run.job.inbox:
        if entry["id"] in run.consumed:
            continue
        run.consumed.append(entry["id"])
        match entry["type"]:
            case vocabulary.APPROVAL:
                _decide(run, entry)
            case vocabulary.ANSWER:
                run.tell(vocabulary.QUESTION_ANSWERED, str(entry.get("text", "")), by=_by(entry))
            case vocabulary.RETUNE:
                _retune(run, entry)
            case vocabulary.STEP:
                run.one_step = True


def _decide(run: Execution, entry: Mapping[str, Any]) -> None:
    """One person's decision about one action: the first one about this digest counts, once."""
    said = {"digest": entry.get("digest", ""), "by": _by(entry), "why": entry.get("why", "")}
    at_hand = run.state.at_hand
    for judgement in () if at_hand is None else at_hand.verdicts:
        if judgement.digest and judgement.digest == said["digest"] and judgement.granted is None:
            judgement.granted = entry.get("granted") is True
            judgement.by, judgement.why = said["by"], said["why"]
            event = vocabulary.APPROVAL_GIVEN if judgement.granted else vocabulary.APPROVAL_REFUSED
            run.record(event, **said)
            return
    run.record(vocabulary.APPROVAL_IGNORED, **said)


def _retune(run: Execution, entry: Mapping[str, Any]) -> None:
    """Changed limits; what is none was refused by the verb, and is put on record if it comes."""
    changes = entry.get("limits")
    try:
        if not isinstance(changes, Mapping):
            raise InvalidValue("limits", "must be a mapping of limits by name")
        run.retune(changes)
    except InvalidValue as error:
        run.record(vocabulary.RUN_RETUNED, refused=str(error), by=_by(entry))
    else:
        run.record(vocabulary.RUN_RETUNED, limits=changes, by=_by(entry))


def _by(entry: Mapping[str, Any]) -> Any:
    return entry.get("by", "")
