"""Approvals in the guard's store: asked for by a call, decided elsewhere, used once."""

from __future__ import annotations

import asyncio
import sqlite3
from base64 import urlsafe_b64encode
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_engine.seams import Invocation, ToolContext, perform
from agentic_kernel_guard import (
    ApprovalNeeded,
    ApprovalRefused,
    CapabilityRequest,
    Denied,
    Guard,
    GuardedTools,
    Indeterminate,
    InMemoryDriver,
    Key,
    Keyring,
    Redactor,
    Registry,
    RulePolicy,
    StaticRouter,
)
from agentic_kernel_guard.approvals import LONGEST, MOST_OPEN, Verdict, decide, pending, reasons
from agentic_kernel_guard.grants import WAITS
from agentic_kernel_guard.ids import action_of, new_id
from agentic_kernel_guard.loop.tools import APPROVAL_NEEDED
from agentic_kernel_guard.rules import parse
from agentic_kernel_guard.stores import GuardStore, SQLiteGuardStore

from .guards import ANN, BOB, KEYS, SECRET, SPECS, WHY, World

RULES = """version: 1
rules:
- {name: reads, priority: 1, effect: allow, match: {safety: read}}
- {name: timed, priority: 2, effect: require_approval, match: {safety: write},
   approval: {approvers: [bob], timeout_seconds: 60}}
- {name: asks, priority: 3, effect: require_approval, match: {safety: destructive}}
"""


def ruled(store: GuardStore | None = None, rules: str = RULES) -> World:
    return World(RulePolicy(parse(rules)), store)


async def purge(world: World, id: int = 1, name: str = "crm/purge", who: Any = ANN) -> Any:
    request = CapabilityRequest(name, {"id": id}, ask=True)
    token = await world.guard.grant_capability(request, who, WHY)
    return await world.guard.invoke(token, who, {"id": id})


async def asked(world: World, id: int = 1, name: str = "crm/purge", who: Any = ANN) -> str:
    with pytest.raises(ApprovalNeeded) as needed:
        await purge(world, id, name, who)
    assert needed.value.action in needed.value.message
    return needed.value.action


async def settle(world: World, id: str, by: str = "bob", approved: bool = True, **more: Any) -> Any:
    now = int(world.now * 1_000)
    given: dict[str, Any] = {"by": by, "approved": approved, "now": now, **more}
    return await decide(world.store, given.pop("keys", KEYS), id, **given)


async def test_an_approved_call_runs_once_and_its_action_is_explained_whole(
    store: GuardStore,
) -> None:
    world = ruled(store)
    id = await asked(world)
    assert await asked(world) == id, "the same call waits under the same id"
    (waiting,) = await pending(store, int(world.now * 1_000))
    assert (waiting.id, waiting.asked.arguments, waiting.asked.justification) == (
        id,
        {"id": 1},
        WHY,
    )
    assert (waiting.asked.principal, waiting.asked.rule) == ("ann", "asks")
    assert (await world.guard.explain(id)).outcome == "waiting"
    await settle(world, id, note="go")
    assert await pending(store, int(world.now * 1_000)) == []
    assert world.operations.calls == []
    frame = await purge(world)
    assert frame.rows
    assert world.operations.calls == [("purge", {"id": 1})]
    told = await world.guard.explain(id)
    assert [entry["kind"] for entry in told.entries] == [
        "asked", "asked", "approved", "granted", "began", "ended",
    ]  # fmt: skip
    assert told.outcome == "succeeded"
    assert told.entries[2]["by"] == told.entries[3]["approved_by"] == "bob"
    again = await asked(world)
    assert again != id, "the approval was for one call"
    assert len(world.operations.calls) == 1


async def test_an_approval_is_for_these_arguments_of_this_principal() -> None:
    world = ruled()
    await settle(world, await asked(world), by="carl")
    await asked(world, id=2)
    await asked(world, name="crm/change")
    await asked(world, who=BOB)
    assert world.operations.calls == []
    await purge(world)
    assert len(world.operations.calls) == 1


async def test_calls_at_once_run_an_approved_action_once(store: GuardStore) -> None:
    world = ruled(store)
    await settle(world, await asked(world))
    found = await asyncio.gather(*(purge(world) for _ in range(8)), return_exceptions=True)
    assert len(world.operations.calls) == 1
    assert sum(not isinstance(each, Exception) for each in found) >= 1
    for each in found:
        assert not isinstance(each, Exception) or isinstance(each, (Indeterminate, ApprovalNeeded))


async def test_an_approval_of_a_call_that_may_be_repeated_is_for_one_call_as_well(
    store: GuardStore,
) -> None:
    world = ruled(store)
    specs = [replace(spec, idempotent=True) for spec in SPECS]
    began, ends, calls = asyncio.Event(), asyncio.Event(), list[int]()

    async def purge_slowly(id: int) -> str:
        calls.append(id)
        began.set()
        if len(calls) == 1:
            await ends.wait()
        return "done"

    driver = InMemoryDriver({"purge": purge_slowly})
    guard, elsewhere = (
        Guard(
            Registry(specs), StaticRouter({"crm/purge": [driver]}),
            policy=RulePolicy(parse(RULES)), store=store, keys=KEYS, resolver=world,
            clock=lambda: world.now,
        )
        for _ in range(2)
    )  # fmt: skip

    async def granted(number: int) -> str:
        request = CapabilityRequest("crm/purge", {"id": 1}, ask=True)
        return await guard.grant_capability(request, ANN, f"{WHY} {number}")

    with pytest.raises(ApprovalNeeded) as needed:
        await granted(0)
    await settle(world, needed.value.action)
    tokens = [await granted(number) for number in range(6)]  # None of them has begun yet.
    first = asyncio.ensure_future(guard.invoke(tokens[0], ANN, {"id": 1}))
    await began.wait()
    for token in tokens[1:]:
        with pytest.raises(Indeterminate, match="still runs"):
            await guard.invoke(token, ANN, {"id": 1}, timeout=0.01)
        # Another process cannot know if the first one still runs.
        with pytest.raises(Indeterminate, match="was begun before"):
            await elsewhere.invoke(token, ANN, {"id": 1})
    ends.set()
    assert (await first) is not None
    assert calls == [1]


async def test_no_id_is_taken_for_a_card_or_a_phone() -> None:
    """Messages are redacted, and a person needs the whole id from them."""
    redactor = Redactor()
    for _ in range(300):
        for made in (new_id("q"), action_of("ann", "acme", new_id("a"))):
            assert redactor.text(f"waits for an approval: request {made}")[1] == 0


async def test_a_refusal_holds_and_its_note_is_read() -> None:
    world = ruled()
    id = await asked(world)
    await settle(world, id, approved=False, note="not today")
    for _ in range(2):
        with pytest.raises(Denied, match=r"bob refused .*: not today") as refused:
            await purge(world)
        assert refused.value.action == id
        assert not isinstance(refused.value, ApprovalNeeded)
    assert (await world.guard.explain(id)).outcome == "denied"
    world.now += WAITS
    assert await asked(world) != id


async def test_who_may_not_approve(store: GuardStore) -> None:
    world = ruled(store)
    id = await asked(world, name="crm/change")
    with pytest.raises(ApprovalRefused, match="none of its approvers: bob"):
        await settle(world, id, by="carl")
    with pytest.raises(ApprovalRefused, match="nobody approves"):
        await settle(world, id, by="ann")
    with pytest.raises(ApprovalRefused, match="no request"):
        await settle(world, "q_none")
    with pytest.raises(InvalidValue, match="2,001 characters"):
        await settle(world, id, note="x" * 2_001)
    await settle(world, id)
    with pytest.raises(ApprovalRefused, match="bob has approved"):
        await settle(world, id, approved=False)
    await purge(world, name="crm/change")


async def test_an_approver_who_is_none_any_more_does_not_count() -> None:
    world = ruled()
    id = await asked(world, name="crm/change")
    await settle(world, id)
    later = ruled(world.store, RULES.replace("[bob]", "[carl]"))
    with pytest.raises(Denied, match="'bob' is none of its approvers") as refused:
        await purge(later, name="crm/change")
    assert not isinstance(refused.value, ApprovalNeeded), "there is nothing to wait for"
    assert later.operations.calls == []


async def test_a_request_and_its_approval_have_a_time() -> None:
    world = ruled()
    id = await asked(world, name="crm/change")
    world.now += 60
    with pytest.raises(ApprovalRefused, match=r"time of .* is over"):
        await settle(world, id)
    second = await asked(world, name="crm/change")
    assert second != id
    await settle(world, second)
    request = CapabilityRequest("crm/change", {"id": 1}, ask=True)
    token = await world.guard.grant_capability(request, ANN, WHY)
    world.now += 60
    with pytest.raises(Exception, match="expired"):
        await world.guard.invoke(token, ANN, {"id": 1})
    assert await asked(world, name="crm/change") not in (id, second)
    assert world.operations.calls == []


async def test_a_decision_without_a_key_or_for_another_call_does_not_count() -> None:
    world = ruled()
    id = await asked(world)
    await settle(world, id, keys=Keyring([Key("k1", bytes(range(1, 33)))]))
    with pytest.raises(ApprovalRefused, match="no live key signed"):
        await purge(world)
    first, second = await asked(world, 2), await asked(world, 3)
    await settle(world, first)
    stolen = await world.store.approval(first)
    assert stolen is not None
    assert stolen.verdict is not None
    await world.store.settle(second, stolen.verdict, int(world.now * 1_000), '{"action":"x"}')
    with pytest.raises(ApprovalRefused, match="no live key signed"):
        await purge(world, 3)
    assert world.operations.calls == []


async def test_a_request_that_shows_another_call_is_not_approved(tmp_path: Any) -> None:
    store = SQLiteGuardStore(tmp_path / "guard.db")
    world = ruled(store)
    id = await asked(world)
    with store.writing() as run:
        run("UPDATE guard_requests SET body = replace(body, '{\"id\":1}', '{\"id\":2}')")
    with pytest.raises(ApprovalRefused, match="shows another call"):
        await settle(world, id)
    await store.close()


async def test_the_time_of_an_approval_cannot_be_made_longer(tmp_path: Any) -> None:
    store = SQLiteGuardStore(tmp_path / "guard.db")
    world = ruled(store)
    await settle(world, await asked(world, name="crm/change"))
    with store.writing() as run:
        run("UPDATE guard_requests SET until = until + 1000000")
    world.now += 60
    with pytest.raises(ApprovalRefused, match="no live key signed"):
        await purge(world, name="crm/change")
    assert world.operations.calls == []
    await store.close()


async def test_the_requests_that_wait_are_bounded() -> None:
    world = ruled()
    for number in range(MOST_OPEN):
        await asked(world, number)
    with pytest.raises(Denied, match="100 requests wait already") as refused:
        await purge(world, MOST_OPEN)
    assert not isinstance(refused.value, ApprovalNeeded)
    assert await asked(world, 5)


async def test_a_call_that_nobody_could_read_is_denied() -> None:
    world = ruled()
    request = CapabilityRequest("crm/purge", {"id": 1, "text": "x" * LONGEST}, ask=True)
    with pytest.raises(Denied, match="a person is asked about up to 262,144"):
        await world.guard.grant_capability(request, ANN, WHY)
    assert await pending(world.store, 0) == []
    last = await world.store.last()
    assert last is not None
    assert last.entry["kind"] == "denied"


async def test_a_secret_of_a_note_is_not_in_the_trace() -> None:
    world = ruled()
    await settle(world, await asked(world), approved=False, note=f"use {SECRET}")
    with pytest.raises(Denied):
        await purge(world)
    assert SECRET not in "".join(link.body for link in await world.store.links())


async def test_a_secret_of_an_argument_is_shown_to_the_approver_and_not_in_the_trace() -> None:
    world = ruled()
    request = CapabilityRequest("crm/purge", {"id": 1, "card": SECRET}, ask=True)
    with pytest.raises(ApprovalNeeded):
        await world.guard.grant_capability(request, ANN, WHY)
    (waiting,) = await pending(world.store, int(world.now * 1_000))
    assert waiting.asked.arguments["card"] == SECRET
    assert SECRET not in "".join(link.body for link in await world.store.links())


async def test_a_tool_names_the_request_and_runs_after_the_approval() -> None:
    world = ruled()
    tool = GuardedTools(world.guard, asks=True).find("crm_purge")
    assert tool is not None
    call = ToolCall("crm_purge", {"id": 1, "justification": WHY})

    async def called(key: str) -> Any:
        context = ToolContext("", 0, 0, key, ANN, lambda _: None)
        return await perform(Invocation(tool, call.arguments, call, context))

    first = await called("one")
    assert first.error == APPROVAL_NEEDED
    (waiting,) = await pending(world.store, int(world.now * 1_000))
    assert waiting.id in first.message
    await settle(world, waiting.id)
    assert (await called("two")).ok
    assert world.operations.calls == [("purge", {"id": 1})]
    assert (await called("three")).error == APPROVAL_NEEDED


STEPS = st.one_of(
    st.tuples(st.just("call"), st.sampled_from([ANN, BOB]), st.integers(1, 2)),
    st.tuples(st.just("decide"), st.sampled_from(["ann", "bob", "carl"]), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1, 40, 61]), st.none()),
)


@given(st.lists(STEPS, max_size=25))
def test_no_history_runs_a_call_more_often_than_it_was_approved(
    history: list[tuple[str, Any, Any]],
) -> None:
    async def play() -> None:
        world = ruled(rules=RULES.replace("approvers: [bob], ", ""))
        asked: list[tuple[str, tuple[str, int]]] = []
        open_for: dict[tuple[str, int], list[float]] = {}
        for step, one, two in history:
            if step == "wait":
                world.now += one
            elif step == "decide" and asked:
                id, what = asked[-1]
                try:
                    await settle(world, id, by=one, approved=two)
                except ApprovalRefused:
                    continue
                if two:
                    assert one != what[0], "nobody approves a call of their own"
                    open_for.setdefault(what, []).append(world.now)
            elif step == "call":
                what = (one.name, two)
                before = len(world.operations.calls)
                try:
                    await purge(world, two, "crm/change", one)
                except ApprovalNeeded as needed:
                    asked.append((needed.action, what))
                except Denied:
                    pass
                if len(world.operations.calls) > before:
                    approved = open_for[what].pop()
                    assert world.now < approved + 60, "the request was made before its approval"

    asyncio.run(play())


UNSEEN = [
    "carl ", " carl", "ca\u200brl", "carl\x1b", "\uff43arl", "ca  rl", "ca\u00a0rl", "carl\ufe0f",
    "c\u0430rl", "car\u2113", "\u3164", "", "c" * 257,
]  # fmt: skip
"""Names that a person could take for another one, or does not see."""


@pytest.mark.parametrize("by", UNSEEN, ids=ascii)
async def test_an_approver_whose_name_could_be_taken_for_another_one_is_refused(by: str) -> None:
    world = ruled()
    id = await asked(world)
    with pytest.raises(ApprovalRefused) as refused:
        await settle(world, id, by=by)
    assert refused.value.code == "guard/approval_name"
    for approved in ({"uses": 1}, {"uses": 1, "key": "k"}):
        request = CapabilityRequest("crm/purge", {"id": 1}, approved_by=by, **approved)
        with pytest.raises(Denied):
            await world.guard.grant_capability(request, ANN, WHY)
    assert world.operations.calls == []


@pytest.mark.parametrize("by", ["Ann", "ANN", "ann"])
async def test_nobody_approves_a_call_of_their_own_in_other_letters(by: str) -> None:
    world = ruled()
    with pytest.raises(ApprovalRefused, match="call of their own"):
        await settle(world, await asked(world), by=by)
    request = CapabilityRequest("crm/purge", {"id": 1}, approved_by=by)
    with pytest.raises(Denied, match="call of their own"):
        await world.guard.grant_capability(request, ANN, WHY)


@pytest.mark.parametrize("by", ["Zoë", "Олена (claimed by root)", "李 雷", "o'neill-2"])
async def test_a_usual_name_of_any_script_approves(by: str) -> None:
    world = ruled()
    await settle(world, await asked(world), by=by)
    await purge(world)
    assert len(world.operations.calls) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"uses": None}, "an approval is for one call"),
        ({"uses": 2}, "an approval is for one call"),
        ({"seconds": 10**8}, "holds for up to 604,800 seconds"),
        ({"seconds": 604_801}, "holds for up to 604,800 seconds"),
    ],
    ids=str,
)
def test_an_approval_is_for_one_call_and_not_for_ever(more: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        CapabilityRequest("crm/purge", {"id": 1}, approved_by="bob", **more)


async def test_an_approved_call_runs_under_the_justification_that_the_person_has_read(
    store: GuardStore,
) -> None:
    world = ruled(store)

    async def grant(why: str) -> str:
        request = CapabilityRequest("crm/purge", {"id": 1}, ask=True)
        return await world.guard.grant_capability(request, ANN, why)

    id = ""
    for why in ("the customer asked for it", "she asked twice", "the customer asked for it"):
        with pytest.raises(ApprovalNeeded) as needed:
            await grant(why)
        id = needed.value.action
    assert await reasons(store, id) == ["the customer asked for it", "she asked twice"]
    await settle(world, id)
    token = await grant("a reason that nobody has read")
    assert await world.guard.invoke(token, ANN, {"id": 1}) is not None
    granted, began, _ = (await world.guard.explain(id)).entries[-3:]
    assert granted["justification"] == began["justification"] == "the customer asked for it"
    assert granted["said"] == "a reason that nobody has read"


async def test_a_decision_is_for_the_text_that_the_person_saw(tmp_path: Path) -> None:
    world = ruled(SQLiteGuardStore(tmp_path / "guard.db"))
    id = await asked(world)
    await settle(world, id)
    with closing(sqlite3.connect(tmp_path / "guard.db")) as db, db:
        changed = "UPDATE guard_requests SET body = replace(body, 'customer', 'director')"
        assert db.execute(changed).rowcount == 1
    with pytest.raises(ApprovalRefused, match="no live key signed"):
        await purge(world)
    assert world.operations.calls == []
    await world.store.close()


async def test_a_decision_of_an_earlier_release_still_counts() -> None:
    world = ruled()
    id = await asked(world)
    found = await world.store.approval(id)
    assert found is not None
    verdict = Verdict(approved=True, by="bob", at=1, note="", key="k1", mac="")
    mac = KEYS.mac("k1", verdict.message(found))
    assert mac is not None
    text = urlsafe_b64encode(mac).rstrip(b"=").decode()
    said = msgspec.to_builtins(msgspec.structs.replace(verdict, mac=text))
    del said["seen"]
    stored = msgspec.json.encode(said).decode()
    await world.store.settle(id, stored, int(world.now * 1_000), '{"action":"x"}')
    await purge(world)
    assert len(world.operations.calls) == 1
