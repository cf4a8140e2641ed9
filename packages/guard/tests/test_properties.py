"""Every sequence of steps: no forbidden call runs, and no secret is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.loop import Observation, ToolCall
from agentic_kernel_engine.seams import Invocation, ToolContext, perform
from agentic_kernel_guard import (
    CapabilityRequest,
    Frame,
    GuardedTools,
    GuardError,
    Narrower,
    Query,
    RulePolicy,
)
from agentic_kernel_guard.rules import parse
from agentic_kernel_guard.trace import verify

from .guards import ANN, BOB, WHY, World
from .test_redact import SECRETS

RULES = """version: 1
rules:
- {name: taint, priority: 1, effect: deny, match: {safety: [write, destructive]},
   when: {carries: crm}}
- {name: reads, priority: 2, effect: allow, match: {safety: read}}
- {name: writes, priority: 3, effect: allow, match: {safety: write, role: writer},
   limit: {calls: 3, seconds: 60, per: principal}}
- {name: asks, priority: 4, effect: require_approval, match: {safety: destructive, role: admin},
   approval: {approvers: [bob, carl]}}
"""
WORD = "acct/7Q-993-X1"
"""The texts that a read shows, and that no write may carry after it."""
NOTES = ("", WORD, f"pay {WORD} now", "acct/1A-000-Z9")
PEOPLE = {"ann": ANN, "bob": BOB}
STEP = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(
            ["grant", "grant", "attenuate", "revoke", "invoke", "invoke", "tool", "role", "wait"]
        ),
        "who": st.sampled_from(["ann", "bob"]),
        "name": st.sampled_from(["find", "change", "purge"]),
        "note": st.sampled_from(NOTES),
        "at": st.integers(0, 5),
        "key": st.sampled_from(["", "", "k1", "k2"]),
        "task": st.sampled_from(["", "t1"]),
        "by": st.sampled_from(["", "bob", "carl", "ann", "eve"]),
        "roles": st.sampled_from(["", "writer", "admin", "admin writer"]),
    }
)


class Model:
    """The expected state, kept in the plainest way."""

    def __init__(self) -> None:
        self.world = World(RulePolicy(parse(RULES)), ann="writer", bob="admin")
        self.world.operations.result = [{"id": 1, "account": WORD}]
        self.tools = GuardedTools(self.world.guard)
        self.tokens: list[dict[str, Any]] = []
        self.read: set[tuple[str, str]] = set()
        """The principals and tasks that have seen the word."""
        self.written: dict[str, list[float]] = {"ann": [], "bob": []}
        self.keys: set[tuple[str, str]] = set()

    async def step(self, step: Mapping[str, Any]) -> None:
        """Take one step, and check each operation that it ran."""
        calls = self.world.operations.calls
        before = len(calls)
        ran: tuple[str, str, str, dict[str, Any] | None] | None = None
        try:
            ran = await getattr(self, step["verb"])(step)
        except (GuardError, InvalidValue):
            assert len(calls) == before, "a refused call has run"
        assert len(calls) <= before + 1
        for operation, arguments in calls[before:]:
            assert ran is not None
            self.check(operation, arguments, *ran)

    def check(
        self, operation: str, arguments: Mapping[str, Any], who: str, task: str, by: str,
        token: dict[str, Any] | None,
    ) -> None:  # fmt: skip
        """Look at one operation that ran: may it?"""
        roles = self.world.roles[who]
        if operation != "find":
            assert (who, task) not in self.read or WORD not in arguments["note"]
        if operation == "change":
            assert "writer" in roles
            self.written[who].append(self.world.now)
            assert sum(at > self.world.now - 60 for at in self.written[who]) <= 3
        if operation == "purge":
            assert "admin" in roles
            assert by in ("bob", "carl")
            assert by != who
        if operation == "find":
            self.read.add((who, task))
        if token is None:
            return
        assert (token["name"], token["who"]) == (operation, who)
        assert token["note"] is None or token["note"] == arguments["note"]
        line: dict[str, Any] | None = token
        while line is not None:
            assert not line["revoked"]
            assert self.world.now < line["until"]
            line["used"] += 1
            assert line["used"] <= line["uses"]
            line = line["parent"]

    def pick(self, step: Mapping[str, Any]) -> dict[str, Any]:
        if not self.tokens:
            raise InvalidValue("token", "there is none yet")
        found: dict[str, Any] = self.tokens[step["at"] % len(self.tokens)]
        return found

    async def grant(self, step: Mapping[str, Any]) -> None:
        free = step["at"] % 2 and not step["by"]
        given: dict[str, Any] = {"id": 1, "note": step["note"]}
        asked = CapabilityRequest(
            f"crm/{step['name']}", None if free else given,
            {"id": {"min": 0}, "note": {"max_len": 99}} if free else None,
            uses=1 + step["at"] % 3, seconds=25, task=step["task"], key=step["key"],
            approved_by=step["by"],
        )  # fmt: skip
        text = await self.world.guard.grant_capability(asked, PEOPLE[step["who"]], WHY)
        self.tokens.append({
            "text": text, "name": step["name"], "who": step["who"], "task": step["task"],
            "by": step["by"], "note": None if free else step["note"], "uses": asked.uses,
            "until": self.world.now + 25, "revoked": False, "used": 0, "parent": None,
        })  # fmt: skip

    async def attenuate(self, step: Mapping[str, Any]) -> None:
        parent = self.pick(step)
        less = Narrower(uses=1, seconds=40, pattern={"note": {"max_len": 20}})
        text = await self.world.guard.attenuate(parent["text"], less)
        self.tokens.append(
            {**parent, "text": text, "uses": 1, "used": 0, "revoked": False, "parent": parent}
        )

    async def revoke(self, step: Mapping[str, Any]) -> None:
        token = self.pick(step)
        await self.world.guard.revoke(token["text"])
        token["revoked"] = True

    async def invoke(self, step: Mapping[str, Any]) -> tuple[str, str, str, dict[str, Any]]:
        token = self.pick(step)
        note = step["note"] if token["note"] is None else token["note"]
        arguments = {"id": 1, "note": note}
        await self.world.guard.invoke(token["text"], PEOPLE[step["who"]], arguments, "table")
        return step["who"], token["task"], token["by"], token

    async def tool(self, step: Mapping[str, Any]) -> tuple[str, str, str, None]:
        arguments: dict[str, Any] = {"id": 1, "note": step["note"]}
        if step["name"] != "find":
            arguments["justification"] = WHY
        found = await used(
            self.tools, f"crm_{step['name']}", arguments, PEOPLE[step["who"]],
            step["key"] or f"tool{len(self.world.operations.calls)}-{self.world.now}", step["by"],
        )  # fmt: skip
        if not found.ok:
            raise InvalidValue("tool", found.error)
        return step["who"], "", step["by"], None

    async def role(self, step: Mapping[str, Any]) -> None:
        self.world.roles[step["who"]] = set(step["roles"].split())

    async def wait(self, step: Mapping[str, Any]) -> None:
        self.world.now += 5.0 * step["at"]


async def used(
    tools: GuardedTools, name: str, arguments: dict[str, Any], who: Principal, key: str, by: str
) -> Observation:
    found = tools.find(name)
    assert found is not None
    context = ToolContext("", 0, 0, key, who, lambda _: None, approved_by=by or None)
    call = ToolCall(name, arguments)
    return await perform(Invocation(found, arguments, call, context))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=25))
async def test_no_sequence_of_steps_by_several_people_runs_what_may_not_run(
    steps: list[dict[str, Any]],
) -> None:
    model = Model()
    for step in steps:
        await model.step(step)
    verify(await model.world.store.links(0, 10_000))


SPOTS = st.sampled_from(["value", "key", "deep", "json", "bytes", "note", "name", "why"])


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(SECRETS)), spots=st.lists(SPOTS, min_size=1, max_size=4),
    mode=st.sampled_from(["summary", "table", "handle_only"]),
    fails=st.sampled_from(["", "error", "denied", "schema", "pattern"]),
)  # fmt: skip
async def test_a_secret_is_in_no_frame_trace_page_log_or_error(
    kind: str, spots: list[str], mode: Any, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = SECRETS[kind]
    world = World(ann="writer")
    row: dict[Any, Any] = {"id": 1, "value": "plain"}
    held: dict[str, dict[Any, Any]] = {
        "value": {"value": f"it is {secret}, and more"},
        "key": {f"about {secret}": "x"},
        "deep": {"deep": {"more": [{"x": f"({secret})"}]}},
        "json": {"json": json.dumps({"x": [secret]})},
        "bytes": {"bytes": f"<{secret}>".encode()},
    }
    for spot in spots:
        row |= held.get(spot, {})
    world.operations.result = [row, {"id": 2}]
    if fails == "error":
        world.operations.error = OSError(f"cut {secret}")
    arguments: dict[str, Any] = {"id": f"no id {secret}" if fails == "schema" else 1}
    if "note" in spots:
        arguments["note"] = f"see {secret} here"
    if "name" in spots:
        arguments[f"is {secret} a name"] = 1
    why = f"{WHY}: {secret}" if "why" in spots else WHY
    if fails == "denied":
        world.roles["ann"] = set()
    told: list[str] = []

    async def attempt(work: Any) -> Any:
        try:
            return await work
        except (GuardError, InvalidValue) as error:
            told.extend((str(error), repr(error), repr(error.args)))
            return None

    names = {"id": {"min": 0}, "note": {"max_len": 500}}
    asked = CapabilityRequest(
        "crm/change", **({"pattern": names} if fails == "pattern" else {"arguments": arguments})
    )
    token = await attempt(world.guard.grant_capability(asked, ANN, why))
    if token is not None:
        frame: Frame | None = await attempt(world.guard.invoke(token, ANN, arguments, mode))
        if frame is not None:
            told.append(json.dumps(frame.as_json(), ensure_ascii=False))
            assert frame.handle is not None or "bytes" in spots
            for query in (Query(), Query(equals=(("value", f"it is {secret}, and more"),))):
                if frame.handle is not None:
                    page = await attempt(world.guard.expand(frame.handle, ANN, query))
                    told.append(repr(page and page.as_json()))
    tool = await used(GuardedTools(world.guard), "crm_change",
                      {**arguments, "justification": why}, ANN, "key", "")  # fmt: skip
    told.append(repr((tool.error, tool.message, tool.output)))
    told += [link.body for link in await world.store.links(0, 1_000)]
    told += [record.getMessage() for record in caplog.records]
    everything = "\n".join(told)
    for form in (secret, json.dumps(secret)[1:-1], ascii(secret)[1:-1]):
        assert form not in everything
