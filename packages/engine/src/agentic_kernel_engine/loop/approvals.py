"""Approvals: the decisions of people, each bound to one exact action and used once.

A decision waits in the record's inbox; the commit that acts on it consumes it (R12). It names the
digest of its action, so it never fits another action, the same action with changed arguments, or
the same action requested again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..plans import vocabulary
from ..plans.action import Action, Delegate, ToolCall
from ..seams.agent_tool import AgentTool
from ..waiting import digests, field_text
from .run import LoopRun
from .state import AtHand


async def wait_for_people(run: LoopRun, at_hand: AtHand) -> None:
    """Pause until people have decided about every action that needs an approval.

    Raises:
        RunEnded: Always, if a decision is missing.
    """
    if run.job.inbox:
        apply_decisions(run)  # A decision may have come since the step began.
    requests = [
        judgement.request(action, judgement.decision.reason)
        for action, judgement in zip(at_hand.plan.actions, at_hand.verdicts, strict=True)
        if judgement.waits
    ]
    if requests:
        run.state.at_hand = at_hand
        await suspend(run, {"kind": "approval", "requests": requests})


async def ask_for_children(run: LoopRun, at_hand: AtHand) -> bool:
    """Pause for the requests of children and tools to people, unless a decision has come.

    Returns:
        True if a decision has come; False if no child and no tool asks for anything.

    Raises:
        RunEnded: The Task is paused.
    """
    apply_decisions(run)
    if any(at_hand.decided.values()) or _answered_since(at_hand):
        return True
    if at_hand.awaited:
        await suspend(run, _together(list(at_hand.awaited.values())))
    return False


def _answered_since(at_hand: AtHand) -> bool:
    """True if a question of a tool has its answer."""
    return any(
        at_hand.awaited[slot].get("digest") in answers
        for slot, answers in at_hand.answers.items()
        if slot in at_hand.awaited
    )


def _together(awaited: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One note for several requests: all approvals, or else the first question."""
    approvals = [waiting for waiting in awaited if waiting["kind"] == "approval"]
    if len(approvals) < 2:
        return approvals[0] if approvals else awaited[0]
    return {
        "kind": "approval",
        "children": [child for waiting in approvals for child in waiting["children"]],
        "requests": [request for waiting in approvals for request in waiting["requests"]],
    }


async def suspend(run: LoopRun, waiting: Mapping[str, Any], due: Any = None) -> None:
    """Pause until people or the clock let the Task go on; note what the Task waits for.

    Raises:
        RunEnded: Always.
    """
    run.state.waiting = dict(waiting)
    await run.wait_for(waiting, due)


def apply_decisions(run: LoopRun) -> None:
    """Act on the decisions in the inbox; the next commit consumes them.

    A decision that fits nothing stays in the inbox while a child may ask for it, so that no
    decision is lost if a pause comes before the child asks again.
    """
    run.apply_decisions(partial(_act, run), partial(_children_may_ask, run))


def _act(run: LoopRun, entry: Mapping[str, Any]) -> bool:
    approval = entry["type"] == vocabulary.APPROVAL
    return _decide(run, entry) if approval else _answered(run, entry)


def _decide(run: LoopRun, entry: Mapping[str, Any]) -> bool:
    """Apply a person's decision about one action; True if it fits one, or a child's request."""
    at_hand = run.state.at_hand
    if at_hand is not None and run.judge(at_hand.verdicts, entry):
        return True
    said = {name: field_text(entry, name) for name in ("digest", "by", "why")}
    return _hand_on(run, {**said, "type": entry["type"], "granted": entry["granted"]})


def _answered(run: LoopRun, entry: Mapping[str, Any]) -> bool:
    """Apply an answer to the question of this Task, a tool or a child; a second one fits none.

    An answer names the digest of its question. If it names none, there was no question when it
    came, and it is recorded as a message of the user.

    Returns:
        True if the answer fits a question, or names none.
    """
    waiting, text = run.state.waiting or {}, entry["text"]
    asks = waiting.get("kind") == "question"
    wanted = waiting.get("digest", "") if asks else ""
    digest, by = entry.get("digest", wanted), field_text(entry, "by")
    if digest != wanted or (asks and ("children" in waiting or "tool" in waiting)):
        return _hand_on(run, {"digest": digest, "by": by, "type": entry["type"], "text": text})
    run.tell(vocabulary.QUESTION_ANSWERED, text, by=by)
    if "digest" in entry:
        waiting["digest"] = ""
    return True


def _children_may_ask(run: LoopRun) -> bool:
    """True if the plan at hand waits for a child, or will wait for one."""
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
    """Keep a decision for the child or the tool that asked; False if none did, or it has one.

    The same commit takes the decision out of the inbox and keeps it, so it is never lost.
    """
    at_hand = run.state.at_hand
    if at_hand is None or not decision["digest"]:
        return False
    for slot, waiting in at_hand.awaited.items():
        if "tool" in waiting and "children" not in waiting:
            if _answer_tool(run, at_hand, slot, decision):
                return True
            continue
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


def _answer_tool(run: LoopRun, at_hand: AtHand, slot: str, decision: Mapping[str, Any]) -> bool:
    """Keep an answer for the tool that asked; False if it answers another question."""
    waiting, digest = at_hand.awaited[slot], decision["digest"]
    given = at_hand.answers.get(slot, {})
    if waiting["digest"] != digest or digest in given or "text" not in decision:
        return False
    at_hand.answers[slot] = {**given, digest: decision["text"]}
    run.record(
        vocabulary.DECISION_HANDED_ON, tool=waiting["tool"], question=waiting["question"],
        text=decision["text"], digest=digest, by=decision["by"],
    )  # fmt: skip
    return True
