"""`step` is pure: every request in every state, without a server."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from agentic_kernel_server import Ruling
from agentic_kernel_server.executions import events as e
from agentic_kernel_server.executions import requests as r
from agentic_kernel_server.executions.state import Past, State, decoded, from_plain, plain
from agentic_kernel_server.executions.step import SETTLED_BY, Stepped, step
from agentic_kernel_server.executions.tables import (
    EXECUTIONS,
    STEPS,
    ExecutionStatus,
    StepStatus,
    advance,
)

ALLOW = Ruling("allow")
ASK = Ruling("require_approval", "dangerous", "ask", ("eve",), 10.0)
DENY = Ruling("deny", "no", "never")


class World:
    """One execution without a server: its state, its past, and the time."""

    def __init__(self) -> None:
        self.state = State(deadline=1_000.0)
        self.past = Past()
        self.now = 0.0
        self.pushed: list[tuple[str, dict[str, Any]]] = []
        self.told: list[str] = []

    def do(self, request: Any, ruling: Ruling | None = ALLOW) -> Stepped:
        """Carry out one request, and hold the state against what it becomes when stored."""
        done = step(self.state, self.past, request, self.now, "x", 100.0, ruling)
        assert decoded(msgspec.json.encode(self.state)) == self.state
        assert from_plain(plain(self.state)) == self.state
        for kind, data in done.events:
            msgspec.json.encode(data)
            self.past.fold(kind, data, None)
            self.told.append(kind)
        self.pushed = done.pushes
        return done

    def assigned(self, session: str = "s1", consumer: str = "c1") -> World:
        self.do(r.Assign(session, consumer))
        return self


def call(tool: str = "t", *, key: str = "", remote: bool = False, session: str = "s1") -> r.Invoke:
    return r.Invoke(session, tool, {"n": 1}, key, remote)


def test_a_repeated_call_is_answered_like_the_first_open_or_closed() -> None:
    world = World().assigned()
    first = world.do(call(key="k")).reply
    assert world.do(call(key="k"), None).reply == first
    world.do(r.StepResult("s1", "x.1", True, 5))
    assert world.do(call(key="k"), None).reply == first
    assert world.state.made == 1


def test_a_call_asks_the_policy_once_and_changes_nothing_before() -> None:
    world = World().assigned()
    before = plain(world.state)
    before["session"]["heard"] = True
    assert world.do(call(), None).undecided
    assert plain(world.state) == before


def test_a_local_call_that_an_earlier_session_began_is_known_as_a_repetition() -> None:
    world = World().assigned()
    assert not world.do(call(), None).repeated
    world.do(call())
    assert not world.do(call(), None).repeated  # The second one of this session.
    world.do(call("asked"), ASK)
    world.do(call("elsewhere", remote=True))
    world.do(r.AgentLost("c1", "gone"))
    world.assigned("s2", "c2")
    assert world.do(call(session="s2"), None).repeated
    assert not world.do(call("asked", session="s2"), None).repeated  # It never began.
    assert not world.do(call("elsewhere", remote=True, session="s2"), None).repeated
    world.do(call(session="s2"))
    assert not world.do(call(session="s2"), None).repeated
    assert not world.do(call("other", session="s2"), None).repeated


def test_a_denied_call_is_an_answer_and_no_step() -> None:
    world = World().assigned()
    done = world.do(call(), DENY)
    assert done.reply.body == {"accepted": False, "error": "no"}
    assert world.told[-1] == e.DENIED
    assert not world.state.steps


def test_a_deadline_begins_after_the_approval() -> None:
    world = World().assigned()
    world.do(call(remote=True), ASK)
    assert world.state.next_deadline() == 10.0
    world.now = 9.0
    done = world.do(r.Approve("x.1", True, by="eve"))
    assert done.spawned == ["x.1"]
    assert world.state.steps["x.1"].deadline == 109.0
    assert world.pushed == [("approval.resolved", {"step_id": "x.1", "approved": True})]


def test_only_a_named_approver_resolves_an_approval() -> None:
    world = World().assigned()
    world.do(call(), ASK)
    assert world.do(r.Approve("x.1", True, by="mallory")).reply.status == 403
    assert world.state.steps["x.1"].approval is not None
    assert world.do(r.Approve("x.2", True, by="eve")).reply.status == 404


def test_an_approval_that_comes_too_late_cancels_the_step() -> None:
    world = World().assigned()
    world.do(call(), ASK)
    world.now = 10.0
    world.do(r.Tick())
    assert world.told[-2:] == [e.APPROVAL_RESOLVED, e.STEP_CANCELLED]
    assert world.pushed == [("approval.resolved", {"step_id": "x.1", "approved": False})]
    assert world.do(r.Approve("x.1", True, by="eve")).reply.status == 409


def test_a_result_for_a_dispatched_step_records_that_it_ran() -> None:
    world = World().assigned()
    world.do(call(remote=True))
    world.do(r.ChildMoved("x.1", "dispatch", 1, {"attempt": 1}))
    world.do(r.ChildEnded("x.1", "succeed", 5))
    assert world.told[-3:] == [e.STEP_DISPATCHED, e.STEP_STARTED, e.STEP_SUCCEEDED]


def test_complete_needs_closed_steps_and_no_signal() -> None:
    world = World().assigned()
    world.do(call())
    world.do(r.Wait("s1", "go"))
    assert world.do(r.Complete("s1")).reply.status == 409
    world.do(r.StepResult("s1", "x.1", True))
    assert world.do(r.Complete("s1", 5)).end is not None


def test_a_signal_that_came_before_its_wait_is_kept_for_it() -> None:
    world = World().assigned()
    world.do(r.Signal("go", 1))
    world.do(r.Signal("go", 2))
    world.do(r.Wait("s1", "go"))
    assert world.pushed == [("signal.received", {"signal_type": "go", "payload": 1})]
    world.do(r.Wait("s1", "go"))
    assert world.pushed == [("signal.received", {"signal_type": "go", "payload": 2})]
    world.do(r.Wait("s1", "go"))
    assert world.pushed == []
    assert world.state.status is ExecutionStatus.BLOCKED


def test_the_same_signal_request_counts_once() -> None:
    world = World().assigned()
    world.do(r.Signal("go", 1, id="a"))
    world.do(r.Signal("go", 1, id="a"))
    assert world.past.signals == {"go": [1]}


def test_a_timed_out_step_is_pushed_as_failed() -> None:
    world = World().assigned()
    world.do(call(remote=True))
    world.now = 102.0
    before = len(world.told)
    assert world.do(r.Tick()).late == ["x.1"]
    assert len(world.told) == before  # Only the step's Task knows how it has ended.
    world.do(r.ChildEnded("x.1", "time_out", error="the step reached its deadline"))
    assert world.told[-1] == e.STEP_TIMED_OUT
    ((kind, data),) = world.pushed
    assert (kind, data["status"]) == ("tool.result", "failed")


def test_a_local_step_times_out_by_the_clock() -> None:
    world = World().assigned()
    world.do(call())
    world.now = 100.0
    assert world.do(r.Tick()).late == []
    assert world.told[-1] == e.STEP_TIMED_OUT


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        r.Invoke("s1", "pay", {"n": 1}, "k"),
        r.Invoke("s1", "t", {"n": 1_000_000}, "k"),
        r.Invoke("s1", "t", {"n": True}, "k"),
        r.Invoke("s1", "t", {"n": 1}, "k", remote=True),
    ],
    ids=["tool", "arguments", "type", "remote"],
)
def test_a_key_of_another_call_is_no_way_past_the_policy(other: r.Invoke, closed: bool) -> None:
    world = World().assigned()
    world.do(call(key="k"))
    if closed:
        world.do(r.StepResult("s1", "x.1", True, 1))
    before = len(world.told)
    done = world.do(other, None)
    assert done.reply.status == 409
    assert "is another call" in done.reply.body["error"]
    assert len(world.told) == before
    assert world.do(call(key="k"), None).reply.body["step_id"] == "x.1"


def test_nothing_is_pushed_before_the_first_intent_of_a_session() -> None:
    world = World().assigned()
    world.do(call(remote=True))
    world.do(r.AgentLost("c1", "gone"))
    world.assigned("s2", "c2")
    world.do(r.ChildEnded("x.1", "succeed", 5))
    assert world.pushed == []
    world.do(call(remote=True, session="s2"), None)
    assert world.pushed == [("tool.result", {"step_id": "x.1", "status": "succeeded", "result": 5})]


@pytest.mark.parametrize("seed", range(60))
def test_random_requests_keep_to_the_tables(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    status = world.state.status
    steps: dict[str, StepStatus] = {}
    for _ in range(80):
        session = world.state.session
        name = session.id if session is not None and chance.random() < 0.9 else "none"
        id = chance.choice([*world.state.steps, "x.1", "x.9"])
        request = chance.choice(
            [
                call(chance.choice("ab"), remote=chance.random() < 0.5, session=name),
                call("k", key=str(chance.randrange(3)), session=name),
                r.Wait(name, chance.choice("pq")),
                r.Signal(chance.choice("pq"), 1),
                r.Approve(id, chance.random() < 0.5, by="eve"),
                r.StepResult(name, id, chance.random() < 0.5, 1),
                r.ChildMoved(id, chance.choice(["dispatch", "start", "retry"]), 1, {}),
                r.ChildEnded(id, chance.choice(["succeed", "fail", "time_out", "cancel"])),
                r.Tick(),
                r.AgentLost("c1", "gone"),
                r.Reconnected("c1"),
            ]
        )
        if session is None and chance.random() < 0.7:
            request = r.Assign(f"s{world.state.sessions}", "c1")
        local = isinstance(request, (r.ChildMoved, r.ChildEnded))
        if local and (id not in world.state.steps or not world.state.steps[id].remote):
            continue
        world.now += chance.random() * 8
        before = len(world.told)
        done = world.do(request, chance.choice([ALLOW, ASK, DENY]))
        for kind, data in done.events:
            if kind == e.STEP_CREATED:
                steps[data["step_id"]] = StepStatus.PENDING
            trigger = {**TRIGGERS, e.STEP_CANCELLED: "cancel"}.get(kind)
            if trigger is not None:
                old = steps[data["step_id"]]
                steps[data["step_id"]] = advance(STEPS, old, trigger)
        assert len(world.told) - before == len(done.events)
        now = world.state.status
        assert now is status or _leads(status, now), (status, now, request)
        status = now
        opened = {each for each, state in steps.items() if not state.terminal}
        assert opened == set(world.state.steps)
        assert {each: steps[each] for each in opened} == {
            each.id: each.status for each in world.state.steps.values()
        }


TRIGGERS = {
    e.STEP_DISPATCHED: "dispatch",
    e.STEP_STARTED: "start",
    e.STEP_RETRIED: "retry",
    **{kind: trigger for trigger, kind in SETTLED_BY.items() if trigger != "deny"},
}


def _leads(before: ExecutionStatus, after: ExecutionStatus) -> bool:
    """True if one or two transitions lead from one status to the other."""
    ways = EXECUTIONS[before].values()
    return after in ways or any(after in EXECUTIONS[each].values() for each in ways)


def test_signals_over_the_limit_are_refused_and_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentic_kernel_server.executions.step.MOST_SIGNALS", 2)
    world = World().assigned()
    for number in range(2):
        assert world.do(r.Signal("go", number, id=f"{number}")).reply.status == 200
    refused = world.do(r.Signal("go", 2, id="2"))
    again = world.do(r.Signal("go", 1, id="1"))
    assert (refused.reply.status, refused.events) == (409, [])
    assert again.reply.status == 200
    assert world.past.signals == {"go": [0, 1]}


def test_a_session_that_is_silent_after_it_came_back_is_lost_while_nothing_is_open() -> None:
    world = World().assigned()
    world.do(r.Wait("s1", "go"))
    world.now = 10.0
    world.do(r.Reconnected("c1"))
    world.now = 500.0
    world.do(r.Tick())
    assert world.state.session is not None, "it waits for a signal and has nothing to say"
    world.do(r.Signal("go", 1))
    assert world.state.next_deadline() == 600.0
    world.now = 599.0
    world.do(r.Reconnected("c1"))  # A further stream is no word of the session.
    world.do(r.Tick())
    assert world.state.session is not None
    world.now = 600.0
    world.do(r.Tick())
    assert world.state.session is None
    assert world.told[-1] == e.RESET


def test_a_session_that_is_heard_of_after_it_came_back_may_be_silent() -> None:
    world = World().assigned()
    world.do(call())
    world.do(r.Reconnected("c1"))
    world.do(r.StepResult("s1", "x.1", True, 5))
    world.now = 900.0
    world.do(r.Tick())
    assert world.state.session is not None
    assert world.state.next_deadline() == 1_000.0
