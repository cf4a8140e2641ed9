"""Forms of a result: its names and bytes are the same in a frame and in what a handle answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from agentic_kernel_guard import (
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    Constraints,
    DefaultPolicy,
    Guard,
    InMemoryDriver,
    MemoryGuardStore,
    Query,
    RawResult,
    Registry,
    ResponseMode,
    SafetyClass,
    StaticRouter,
    handles,
)

from .guards import ANN, KEYS

KNOWN = "hunter2secret"


class Login(NamedTuple):
    user: str
    password: str


def guarded(result: Any) -> Guard:
    spec = CapabilitySpec("a/read", "read", "read", safety=SafetyClass.READ)
    driver = InMemoryDriver({"read": lambda: result})
    return Guard(
        Registry([spec]), StaticRouter({"a/read": [driver]}), policy=DefaultPolicy(),
        store=MemoryGuardStore(), keys=KEYS, resolver=AsGiven(),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["summary", "table"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "row",
    [
        {b"password": KNOWN, b"n": 1},
        {("db", "password"): KNOWN},
        {"password": "x", b"password": KNOWN},
        {"password": "x", b"password": "y", ("password",): KNOWN},
        {"password (7) (2)": KNOWN},
        Login("ann", KNOWN),
        {"text": f'{{"api_key": "{KNOWN}"}}'.encode()},
    ],
    ids=["bytes", "a tuple", "twice", "three times", "numbered", "a named tuple", "JSON in bytes"],
)
async def test_a_hidden_field_is_hidden_in_a_frame_and_in_what_a_handle_answers(
    row: Any, nested: bool, mode: ResponseMode
) -> None:
    guard = guarded([{"a": [row]}] if nested else [row])
    token = await guard.grant_capability(CapabilityRequest("a/read", {}), ANN)
    frame = await guard.invoke(token, ANN, {}, mode)
    assert frame is not None
    assert KNOWN not in str(frame.as_json())
    assert frame.handle is not None
    assert KNOWN not in str((await guard.expand(frame.handle, ANN, Query())).as_json())


async def test_a_named_tuple_is_a_row_with_fields() -> None:
    guard = guarded(Login("ann", KNOWN))
    token = await guard.grant_capability(CapabilityRequest("a/read", {}), ANN)
    frame = await guard.invoke(token, ANN, {}, "table")
    assert frame is not None
    assert frame.rows == ({"user": "ann", "password": "[hidden]"},)


def test_a_value_that_has_itself_as_a_part_is_not_kept() -> None:
    value: list[Any] = []
    value.append(value)
    assert (
        handles.kept(RawResult(value, "x", "x"), ANN, "a/read", Constraints(50).as_json(), 1)
        is None
    )
