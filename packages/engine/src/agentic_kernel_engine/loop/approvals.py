"""Approvals: what people decide, bound to the exact action, used once.

The decision lives in the record's inbox; it is consumed in the commit that acts on it (R12). It
names the digest of the action that it is about, so it never fits another one, changed arguments, or
the same action asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from ..plans import vocabulary
from ..plans.action import Action, Delegate, ToolCall, digest, kind_of
from ..plans.decision import ALLOW, ROUTES, Decision, Route, deny
from ..seams.agent_tool import AgentTool
from ..seams.planner import Context
from ..seams.policy import Policy, decided
from ..waiting import digests, field_text
from .run import LoopRun
from .state import AtHand, Judgement

SHOWN: Final = 1_000_000
"""How long the actions of one answer that people are to approve may be, in bytes of JSON."""
_APPROVE = Route.APPROVE
_encode = msgspec.json.Encoder().encode


async def authorize(policy: Policy, run: LoopRun, at_hand: AtHand, context: Context) -> None:
    """Have the policy decide about every action of a plan, once.

    A policy that raises, or gives no `Decision`, has not allowed anything: that counts as a denial.
    So does one that wants people to approve more than they could read. A call that its planner
    wrote wrong is not made, whatever a policy would say.
    """
    if at_hand.verdicts or not at_hand.plan.actions:
        return
    decisions: list[Decision] = []
    room = SHOWN
    for index, action in enumerate(at_hand.plan.actions):
        if type(action) is ToolCall and action.refused:
            decision = ALLOW
        else:
            decision = await decided(policy, action, context)
        judgement = Judgement(decision)
        if ROUTES[decision.verdict][type(action)] is _APPROVE:
            length = len(_encode(action))
            if length <= room:
                room -= length
                judgement.digest = digest(action, f"{run.task.id}:{run.state.step}:{index}")
            else:
                decision = judgement.decision = deny(
                    f"it needs an approval, and its {length:,} bytes of JSON are more than the "
                    f"{SHOWN:,} of one answer that people are shown; make it smaller, or ask for "
                    "less at once"
                )
        at_hand.verdicts.append(judgement)
        decisions.append(decision)
    run.record(vocabulary.PLAN_DECIDED, decisions=decisions)


async def wait_for_people(run: LoopRun, at_hand: AtHand) -> None:
    """Pause until somebody has decided about every action that needs it.

    Raises:
        RunEnded: Always, if anything is undecided.
    """
    if run.job.inbox:
        apply_decisions(run)  # What came while the run was on its way here is not to be waited for.
    requests: list[dict[str, Any]] = []
    for index, judgement in enumerate(at_hand.verdicts):
        if judgement.digest and judgement.granted is None:
            action = at_hand.plan.actions[index]
            requests.append(
                {
                    "digest": judgement.digest,
                    "type": kind_of(action),
                    "action": msgspec.to_builtins(action),
                    "reason": judgement.decision.reason,
                }
            )
    if requests:
        run.state.at_hand = at_hand
        await suspend(run, {"kind": "approval", "requests": requests})


async def ask_for_children(run: LoopRun, at_hand: AtHand) -> bool:
    """Pause for all that children ask people for, unless somebody has just decided about it.

    Returns:
        Whether somebody has; False where no child asks for anything.

    Raises:
        RunEnded: The Task is paused.
    """
    apply_decisions(run)
    if any(at_hand.decided.values()):
        return True
    if at_hand.awaited:
        await suspend(run, _together(list(at_hand.awaited.values())))
    return False


def _together(awaited: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What several children ask for, as one thing that a Task can wait for: the approvals first."""
    approvals = [waiting for waiting in awaited if waiting["kind"] == "approval"]
    if len(approvals) < 2:
        return approvals[0] if approvals else awaited[0]
    return {
        "kind": "approval",
        "children": [child for waiting in approvals for child in waiting["children"]],
        "requests": [request for waiting in approvals for request in waiting["requests"]],
    }


async def suspend(run: LoopRun, waiting: Mapping[str, Any], due: Any = None) -> None:
    """Pause for something outside, and say for what, on the Task and in its history.

    Raises:
        RunEnded: Always.
    """
    run.state.waiting = dict(waiting)
    await run.wait_for(waiting, due)


def apply_decisions(run: LoopRun) -> None:
    """Act on the decisions in the inbox; the next commit consumes them.

    A decision that fits nothing stays in the inbox while a child may ask for it: no decision is
    lost because a pause came before the child asked again.
    """
    run.apply_decisions(partial(_act, run), partial(_children_may_ask, run))


def _act(run: LoopRun, entry: Mapping[str, Any]) -> bool:
    approval = entry["type"] == vocabulary.APPROVAL
    return _decide(run, entry) if approval else _answered(run, entry)


def _decide(run: LoopRun, entry: Mapping[str, Any]) -> bool:
    """One person's decision about one action: the first one about this digest counts, once.

    Returns:
        Whether it is about anything.
    """
    said = {"digest": entry["digest"], "by": _by(entry), "why": field_text(entry, "why")}
    at_hand = run.state.at_hand
    for judgement in () if at_hand is None else at_hand.verdicts:
        if judgement.digest and judgement.digest == said["digest"] and judgement.granted is None:
            judgement.granted = entry["granted"]
            judgement.by, judgement.why = said["by"], said["why"]
            event = vocabulary.APPROVAL_GIVEN if judgement.granted else vocabulary.APPROVAL_REFUSED
            run.record(event, **said)
            return True
    return _hand_on(run, {**said, "type": entry["type"], "granted": entry["granted"]})


def _answered(run: LoopRun, entry: Mapping[str, Any]) -> bool:
    """An answer: to the question of this Task, or of a child; a later one is no answer to either.

    It names the digest of the question that it is meant for; one that names none came when nothing
    was asked, and is something that the user says.

    Returns:
        Whether it is an answer to anything.
    """
    waiting, text = run.state.waiting or {}, entry["text"]
    asks = waiting.get("kind") == "question"
    wanted = waiting.get("digest", "") if asks else ""
    digest, by = entry.get("digest", wanted), _by(entry)
    if digest != wanted or (asks and "children" in waiting):
        return _hand_on(run, {"digest": digest, "by": by, "type": entry["type"], "text": text})
    run.tell(vocabulary.QUESTION_ANSWERED, text, by=by)
    if "digest" in entry:
        waiting["digest"] = ""
    return True


def _children_may_ask(run: LoopRun) -> bool:
    """Whether the plan at hand waits for a child, or will."""
    at_hand = run.state.at_hand
    return at_hand is not None and any(
        str(index) not in at_hand.done and _waits_for_child(run, action)
        for index, action in enumerate(at_hand.plan.actions)
    )


def _waits_for_child(run: LoopRun, action: Action) -> bool:
    if isinstance(action, ToolCall):
        return isinstance(run.tools.find(action.tool), AgentTool)
    return isinstance(action, Delegate) and action.verb == "join"


def _hand_on(run: LoopRun, decision: dict[str, Any]) -> bool:
    """Keep a decision for the child that asked for it; False if none did, or it has one.

    It is consumed from the inbox by the commit that keeps it, so it is never in neither.
    """
    at_hand = run.state.at_hand
    if at_hand is None or not decision["digest"]:
        return False
    for slot, waiting in at_hand.awaited.items():
        decided = at_hand.decided.get(slot, [])
        known = any(each["digest"] == decision["digest"] for each in decided)
        if decision["digest"] in digests(waiting) and not known:
            at_hand.decided[slot] = [*decided, decision]
            run.record(
                vocabulary.DECISION_HANDED_ON, child=waiting["children"][0],
                digest=decision["digest"], by=decision["by"],
            )  # fmt: skip
            return True
    return False


def _by(entry: Mapping[str, Any]) -> str:
    return field_text(entry, "by")
