"""The guard: what is granted is what runs, and what runs is in the trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    ApprovalNeeded,
    Broken,
    CapabilityRequest,
    DefaultPolicy,
    Denied,
    DriverCall,
    Guard,
    GuardError,
    HandleRefused,
    Indeterminate,
    InMemoryDriver,
    Narrower,
    NoEffect,
    NotShown,
    Query,
    RawRefused,
    RawResult,
    Registry,
    ResultGone,
    RulePolicy,
    Sensitivity,
    StaticRouter,
    TokenRefused,
    UnknownPrincipal,
)
from agentic_kernel_guard.policy import Constraints, Request
from agentic_kernel_guard.rules import parse
from agentic_kernel_guard.stores import GuardStore
from agentic_kernel_guard.tokens import Key, Keyring, mint, opened
from agentic_kernel_guard.trace import verify

from .guards import ANN, BOB, KEYS, SECRET, SPECS, WHY, World

ID = {"id": 1}


def want(name: str, /, **rest: Any) -> CapabilityRequest:
    given = {"arguments": ID, **rest}
    if "pattern" in given:
        del given["arguments"]
    return CapabilityRequest(f"crm/{name}", **given)


async def refusal(world: World, token: str, who: Principal = ANN, given: Any = ID) -> str:
    with pytest.raises(TokenRefused) as refused:
        await world.guard.invoke(token, who, given)
    return refused.value.code.removeprefix("guard/token_")


async def test_what_is_granted_runs_once_and_is_explained(store: GuardStore) -> None:
    world = World(store=store, ann="writer")
    token = await world.guard.grant_capability(want("change"), ANN, WHY)
    frame = await world.guard.invoke(token, ANN, ID, "table")
    assert frame is not None
    assert (len(frame.rows), frame.rows[3]) == (50, {"id": 3, "name": "n3", "card": "[hidden]"})
    assert world.operations.calls == [("change", ID)]
    assert await refusal(world, token) == "used_up"
    links = await store.links()
    kinds = [link.entry["kind"] for link in links]
    assert kinds == ["granted", "began", "ended", "denied"]
    assert [link.entry.get("arguments") for link in links] == [None, ID, None, ID]
    explained = await world.guard.explain(links[1].entry["action"])
    assert (explained.outcome, explained.last["justification"]) == ("succeeded", WHY)
    assert verify(links, await world.guard.head(), _keys(world)).entries == 4
    assert frame.handle is not None
    page = await world.guard.expand(frame.handle, ANN, Query(("id",), (("name", "n7"),)))
    assert page.rows == ({"id": 7},)
    for who in (BOB, Principal("ann", "other")):
        with pytest.raises((HandleRefused, UnknownPrincipal)):
            await world.guard.expand(frame.handle, who)
    assert all(SECRET not in link.body for link in await store.links())


def _keys(world: World) -> Any:
    return world.guard._keys


async def test_a_token_for_a_read_never_runs_another_operation() -> None:
    world = World()
    token = await world.guard.grant_capability(
        want("find", arguments={**ID, "operation": "purge", "roles": ["admin"]}), ANN
    )
    given = {**ID, "operation": "purge", "roles": ["admin"]}
    assert await refusal(world, token) == "arguments"
    assert await refusal(world, token, BOB, given) == "principal"
    await world.guard.invoke(token, ANN, given)
    assert [operation for operation, _ in world.operations.calls] == ["find"]


async def test_roles_are_never_the_callers_word() -> None:
    world = World(ann="reader")
    claimed = Principal("ann", "acme", roles=frozenset({"admin"}), kind="service")
    with pytest.raises(Denied, match="admin"):
        await world.guard.grant_capability(want("purge"), claimed)
    world.roles["ann"] = {"admin"}
    token = await world.guard.grant_capability(want("purge"), ANN)
    world.roles["ann"] = set()
    with pytest.raises(Denied, match="admin"):
        await world.guard.invoke(token, claimed, ID)
    (*_, denied) = await world.store.links()
    assert (denied.entry["kind"], denied.entry["arguments"], denied.entry["roles"]) == (
        "denied", ID, [],
    )  # fmt: skip
    with pytest.raises(UnknownPrincipal):
        await world.guard.grant_capability(want("find"), Principal("eve", "acme"))
    assert world.operations.calls == []


async def test_a_dry_run_checks_all_and_spends_nothing() -> None:
    world = World()
    token = await world.guard.grant_capability(want("find"), ANN)
    assert await world.guard.invoke(token, ANN, ID, dry_run=True) is None
    assert world.operations.calls == []
    assert await world.guard.invoke(token, ANN, ID) is not None


async def test_a_child_grants_less_and_ends_with_its_parent(store: GuardStore) -> None:
    world = World(store=store)
    guard = world.guard
    request = want("find", pattern={"id": {"max": 10}}, uses=3, seconds=60)
    parent = await guard.grant_capability(request, ANN)
    child = await guard.attenuate(parent, Narrower(pattern={"id": {"min": 5}}, uses=2, seconds=99))
    assert await refusal(world, child, given={"id": 4}) == "arguments"
    assert await refusal(world, child, given={"id": 11}) == "arguments"
    assert await refusal(world, child, given={"id": 5, "bcc": 1}) == "arguments"
    with pytest.raises(InvalidValue):
        await guard.invoke(child, ANN, {"id": "5"})
    await guard.invoke(child, ANN, {"id": 5})
    await guard.invoke(parent, ANN, {"id": 1})
    await guard.invoke(child, ANN, {"id": 6})
    assert await refusal(world, parent, given={"id": 1}) == "used_up"
    for wider in (Narrower(uses=4), Narrower(arguments={"id": 11})):
        with pytest.raises(TokenRefused):
            await guard.attenuate(parent, wider)
    other = await guard.grant_capability(request, ANN)
    leaf = await guard.attenuate(await guard.attenuate(other, Narrower()), Narrower())
    await guard.revoke(other)
    assert await refusal(world, leaf) == "revoked"
    world.now += 60
    assert await refusal(world, child, given={"id": 5}) == "expired"


RULES = """
version: 1
rules:
  - {name: purge, priority: 1, effect: require_approval, match: {capability: crm/purge},
     approval: {approvers: [bob]}}
  - {name: find, priority: 2, effect: allow, match: {capability: crm/find},
     arguments: {id: {max: 5}}, limit: {calls: 2, seconds: 60, per: principal}}
"""


async def test_a_call_shows_no_more_than_its_token_and_its_principal_may_see() -> None:
    world = World()
    parent = await world.guard.grant_capability(want("find", uses=2), ANN)
    few = Narrower(constraints=Constraints(2, frozenset({"id"})))
    child = await world.guard.attenuate(parent, few)
    frame = await world.guard.invoke(child, ANN, ID, "table")
    assert frame is not None
    assert frame.rows == ({"id": 0}, {"id": 1})
    assert frame.handle is not None
    page = await world.guard.expand(frame.handle, ANN)
    assert page.rows == frame.rows
    whole = await world.guard.invoke(parent, ANN, ID, "table")
    assert whole is not None
    assert len(whole.rows) == 50


async def test_what_needs_an_approval_is_refused_without_one_that_counts() -> None:
    world = World(RulePolicy(parse(RULES)))
    for approved_by in ("", "ann", "eve"):
        with pytest.raises(ApprovalNeeded):
            await world.guard.grant_capability(want("purge", approved_by=approved_by), ANN)
    free = want("purge", pattern={"id": {"max": 9}}, approved_by="bob")
    with pytest.raises(ApprovalNeeded, match="pattern"):
        await world.guard.grant_capability(free, ANN)
    token = await world.guard.grant_capability(want("purge", approved_by="bob"), ANN)
    assert await refusal(world, token, given={"id": 2}) == "arguments"
    await world.guard.invoke(token, ANN, ID)
    assert world.operations.calls == [("purge", ID)]


async def test_a_limit_holds_for_calls_at_once_and_each_is_one_entry(store: GuardStore) -> None:
    world = World(RulePolicy(parse(RULES)), store)
    request = want("find", pattern={"id": {"required": True}}, uses=None)
    token = await world.guard.grant_capability(request, ANN)
    ends = await asyncio.gather(
        *(world.guard.invoke(token, ANN, {"id": n}) for n in range(5)), return_exceptions=True
    )
    assert sum(isinstance(end, Denied) for end in ends) == 3
    assert len(world.operations.calls) == 2
    with pytest.raises(Denied, match="no rule"):
        await world.guard.invoke(token, ANN, {"id": 6})
    decision, near = await world.guard.explain_policy(want("find", arguments={"id": 6}), ANN)
    assert (decision.effect, [each.failed for each in near]) == ("deny", ["arguments.id.max"])
    world.now += 60
    assert await world.guard.invoke(token, ANN, ID) is not None


async def test_the_same_key_is_the_same_action(store: GuardStore) -> None:
    world = World(store=store, ann="admin")
    frames = []
    for _ in range(2):
        token = await world.guard.grant_capability(want("purge", key="step-1"), ANN)
        frames.append(await world.guard.invoke(token, ANN, ID))
        frames.append(await world.guard.invoke(token, ANN, ID))
    world.now += 3_600  # The kept result is gone by now, and the recorded answer is not.
    token = await world.guard.grant_capability(want("purge", key="step-1"), ANN)
    frames.append(await world.guard.invoke(token, ANN, ID))
    assert frames[0] is not None
    assert frames[1:] == frames[:1] * 4
    assert len(world.operations.calls) == 1
    other = want("purge", key="step-1", arguments={"id": 2})
    token = await world.guard.grant_capability(other, ANN)
    assert await refusal(world, token, given={"id": 2}) == "other"


class Hanging:
    """A router whose calls never end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def run(self, call: DriverCall, idempotent: bool) -> RawResult:
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it never ends")


@pytest.mark.parametrize("name", ["change", "find"])
async def test_a_call_without_an_end_is_repeated_only_if_it_changes_nothing(
    name: str, store: GuardStore
) -> None:
    world = World(store=store, ann="writer")
    router, world.guard._calls._router = world.guard._calls._router, Hanging()
    for_one = want(name, key="step-1")
    token = await world.guard.grant_capability(for_one, ANN, WHY)
    cut = asyncio.create_task(world.guard.invoke(token, ANN, ID))
    await world.guard._calls._router.begun.wait()
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    world.guard._calls._router = router
    token = await world.guard.grant_capability(for_one, ANN, WHY)
    if name == "change":
        with pytest.raises(Indeterminate, match="was begun before"):
            await world.guard.invoke(token, ANN, ID)
    else:
        assert await world.guard.invoke(token, ANN, ID) is not None
    assert [called for called, _ in world.operations.calls] == ["find"] * (name == "find")


async def test_a_mode_that_is_not_allowed_is_refused_before_the_call() -> None:
    world = World(ann="admin")
    token = await world.guard.grant_capability(want("purge", uses=1), ANN)
    with pytest.raises(RawRefused):
        await world.guard.invoke(token, ANN, ID, "raw")
    with pytest.raises(InvalidValue, match="response_mode: is 'everything'; use summary"):
        await world.guard.invoke(token, ANN, ID, "everything")  # type: ignore[arg-type]
    assert world.operations.calls == []
    (denied,) = [x.entry for x in await world.store.links() if x.entry["kind"] == "denied"]
    assert "raw output is for principals" in denied["reason"]
    assert denied["arguments"] == ID
    assert await world.guard.invoke(token, ANN, ID) is not None


async def test_a_repeated_call_shows_what_may_be_seen_now() -> None:
    world = World(ann="admin raw_reader")
    token = await world.guard.grant_capability(want("purge", key="k"), ANN)
    frame = await world.guard.invoke(token, ANN, ID, "raw")
    assert frame is not None
    assert SECRET in str(frame.value)
    world.roles["ann"] = {"admin"}
    token = await world.guard.grant_capability(want("purge", key="k"), ANN)
    again = await world.guard.invoke(token, ANN, ID, "table")
    assert again is not None
    assert (again.mode, again.handle) == ("table", frame.handle)
    assert SECRET not in str(again.as_json())
    world.now += 3_600
    token = await world.guard.grant_capability(want("purge", key="k"), ANN)
    with pytest.raises(ResultGone, match="use a new key to call again"):
        await world.guard.invoke(token, ANN, ID, "table")
    assert len(world.operations.calls) == 1


async def test_a_result_without_a_form_of_json_is_shown_or_said() -> None:
    world = World(ann="admin raw_reader")
    world.operations.result = {"at": object()}
    for mode, shown in (("table", {"at": "[object]"}), ("raw", None)):
        token = await world.guard.grant_capability(want("purge"), ANN)
        if shown is None:
            with pytest.raises(NotShown, match="was carried out, but its result has no form"):
                await world.guard.invoke(token, ANN, ID, mode)  # type: ignore[arg-type]
        else:
            frame = await world.guard.invoke(token, ANN, ID, mode)  # type: ignore[arg-type]
            assert frame is not None
            assert (frame.rows, frame.handle) == ((shown,), None)
    ends = [link.entry for link in await world.store.links() if link.entry["kind"] == "ended"]
    assert [end["outcome"] for end in ends] == ["succeeded", "succeeded"]


@pytest.mark.parametrize(
    ("name", "error", "kind", "outcome"),
    [
        ("purge", OSError(f"cut {SECRET}"), Indeterminate, "indeterminate"),
        ("purge", NoEffect("not sent"), NoEffect, "failed"),
        ("find", OSError("cut"), NoEffect, "failed"),
    ],
)
async def test_a_call_that_may_have_had_an_effect_is_not_repeated(
    name: str, error: Exception, kind: type[GuardError], outcome: str
) -> None:
    world = World(ann="admin")
    world.operations.error = error
    token = await world.guard.grant_capability(want(name, key="k"), ANN)
    for _ in range(2):
        with pytest.raises(kind) as raised:
            await world.guard.invoke(token, ANN, ID)
        assert SECRET not in str(raised.value)
    assert len(world.operations.calls) == 1
    (began, *_) = [link.entry for link in await world.store.links() if "arguments" in link.body]
    assert (await world.guard.explain(began["action"])).outcome == outcome


async def test_a_page_shows_what_the_principal_may_see_now() -> None:
    world = World(ann="pii_reader")
    spec = replace(SPECS[0], sensitivity=Sensitivity.PII, allowed_fields=frozenset({"id"}))
    guard = Guard(
        Registry([spec]), world.operations.router, policy=DefaultPolicy(), store=world.store,
        keys=KEYS, resolver=world,
    )  # fmt: skip
    token = await guard.grant_capability(want("find"), ANN)
    frame = await guard.invoke(token, ANN, ID)
    assert frame is not None
    assert frame.handle is not None
    first = Query(limit=1)
    assert set((await guard.expand(frame.handle, ANN, first)).rows[0]) == {"id", "name", "card"}
    world.roles["ann"] = set()
    assert (await guard.expand(frame.handle, ANN, first)).rows == ({"id": 0},)


async def test_a_used_token_stays_used_for_as_long_as_it_holds(store: GuardStore) -> None:
    day = 24 * 3_600
    world = World(store=store)
    token = await world.guard.grant_capability(want("find", seconds=4 * day), ANN)
    await world.guard.invoke(token, ANN, ID)
    world.now += 3 * day
    await store.prune(int(world.now * 1_000))
    assert await refusal(world, token) == "used_up"


async def test_a_field_that_is_hidden_is_no_filter() -> None:
    world = World()
    frame = await world.guard.invoke(
        await world.guard.grant_capability(want("find"), ANN), ANN, ID, "handle_only"
    )
    assert frame is not None
    assert frame.handle is not None
    for name in ("card", "CARD", "ca_rd", "password"):
        with pytest.raises(InvalidValue, match="hidden"):
            await world.guard.expand(frame.handle, ANN, Query(equals=((name, "x"),)))
    with pytest.raises(InvalidValue, match="hidden"):
        await world.guard.expand(frame.handle, ANN, Query(equals=(("name", SECRET),)))
    page = await world.guard.expand(frame.handle, ANN, Query(equals=(("name", "n7"),)))
    assert page.rows == ({"id": 7, "name": "n7", "card": "[hidden]"},)
    world.now += 3_600
    with pytest.raises(HandleRefused):
        await world.guard.expand(frame.handle, ANN)
    with pytest.raises(Broken):
        verify((await world.store.links())[1:])


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "attenuate", "revoke", "invoke", "role", "wait"]),
        st.integers(0, 5),
        st.sampled_from(["find", "change", "purge"]),
        st.sampled_from(["", "writer", "admin"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@given(STEPS)
async def test_no_sequence_runs_what_the_policy_denies(
    steps: list[tuple[str, int, str, str, int]],
) -> None:
    world = World()
    guard = world.guard
    tokens: list[str] = []
    revoked: set[str] = set()
    parents: dict[str, str] = {}
    specs = {spec.operation: spec for spec in SPECS}
    for verb, which, name, role, number in steps:
        token = tokens[which % len(tokens)] if tokens else "none"
        before = len(world.operations.calls)
        try:
            if verb == "grant":
                ask = want(name, pattern={"id": {"max": number}}, uses=2, seconds=30)
                tokens.append(await guard.grant_capability(ask, ANN, WHY if which else ""))
            elif verb == "attenuate":
                tokens.append(
                    await guard.attenuate(token, Narrower(pattern={"id": {"min": number}}))
                )
                parents[tokens[-1]] = token
            elif verb == "revoke":
                await guard.revoke(token)
                revoked.add(token)
            elif verb == "invoke":
                await guard.invoke(token, ANN if which else BOB, {"id": number})
            elif verb == "role":
                world.roles["ann"] = {role} if role else set()
            else:
                world.now += 10
        except GuardError:
            assert len(world.operations.calls) == before
        for operation, arguments in world.operations.calls[before:]:
            who = await world.resolve("ann", "acme")
            assert who is not None
            asked = Request(specs[operation], who, datetime.now(UTC), arguments, WHY)
            assert guard.policy.decide(asked).effect == "allow"
            line = [token]
            while line[-1] in parents:
                line.append(parents[line[-1]])
            assert not revoked & set(line)
    verify(await world.store.links(0, 10_000))


async def test_a_token_of_another_guard_or_operation_is_refused() -> None:
    world, other = World(), World()
    other.guard._name = "other"
    token = await other.guard.grant_capability(want("find"), ANN)
    assert await refusal(world, token) == "audience"
    own = await world.guard.grant_capability(want("find"), ANN)
    changed = msgspec.structs.replace(opened(own, KEYS, int(world.now * 1_000)), op="purge")
    assert await refusal(world, mint(changed, KEYS)) == "operation"
    assert world.operations.calls == []


async def test_keys_rotate_and_nothing_that_holds_is_refused() -> None:
    world = World()
    tokens = []
    for number in range(20):
        if number % 5 == 0:
            before = world.guard._keys
            live = Key(f"k{number}", bytes(range(number, number + 32)))
            old = [Key(before.signing, before._keys[before.signing])]
            world.guard._keys = Keyring([live, *old])
        tokens.append(await world.guard.grant_capability(want("find", seconds=3), ANN))
        world.now += 1
        if number > 1:
            assert await world.guard.invoke(tokens[-2], ANN, ID) is not None
    assert len(world.operations.calls) == 18


async def test_the_same_call_at_once_waits_for_the_answer_of_the_first() -> None:
    world = World(ann="admin")
    began, ends = asyncio.Event(), asyncio.Event()

    async def slow(id: int) -> str:
        world.operations.calls.append(("change", {"id": id}))
        began.set()
        await ends.wait()
        return "changed"

    world.guard._calls._router = StaticRouter({"crm/change": [InMemoryDriver({"change": slow})]})
    tokens = [
        await world.guard.grant_capability(want("change", key="k"), ANN, WHY) for _ in range(3)
    ]
    calls = [asyncio.create_task(world.guard.invoke(each, ANN, ID, "table")) for each in tokens]
    again = asyncio.create_task(world.guard.repeated("k", ANN, "crm/change", ID, "table"))
    await began.wait()
    with pytest.raises(Indeterminate, match=r"still runs after 0\.01 seconds"):
        await world.guard.repeated("k", ANN, "crm/change", ID, timeout=0.01)
    ends.set()
    frames = await asyncio.gather(*calls, again)
    assert [frame.rows for frame in frames if frame is not None] == [("changed",)] * len(frames)
    assert len(world.operations.calls) == 1
    assert not world.guard._calls._running
