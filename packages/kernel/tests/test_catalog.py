"""The catalog: names, capabilities, agents."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from agentic_kernel import Agent, Capability, InvalidValue, Task

GOOD = [
    "a/b",
    "acme/clerk",
    "@acme/clerk",
    "Acme.Corp/clerk-2_x",
    "ünï/cödé",
    "中/文",
    "@/x",
    "😀/😀",
]
BAD = {
    "empty": "",
    "bare": "clerk",
    "slash": "/",
    "no-scope": "/clerk",
    "no-name": "acme/",
    "two-slashes": "acme/clerk/x",
    "double-slash": "acme//clerk",
    "blank": "acme/the clerk",
    "leading-blank": " acme/clerk",
    "trailing-blank": "acme/clerk ",
    "newline": "acme/clerk\n",
    "tab": "acme\t/clerk",
    "nul": "acme/\0clerk",
    "escape": "acme/\x1b[31mclerk",
    "delete": "acme/clerk\x7f",
    "no-break-space": "acme/the\u00a0clerk",
    "ideographic-space": "acme/\u3000clerk",
    "line-separator": "acme/\u2028clerk",
    "zero-width": "acme/cl\u200berk",
    "joiner": "acme/cl\u200derk",
    "byte-order-mark": "\ufeffacme/clerk",
    "bidi": "acme/\u202eclerk",
    "soft-hyphen": "acme/cl\u00aderk",
    "surrogate": "acme/\ud800",
    "relative": "../../etc/passwd",
}


@pytest.mark.parametrize("name", GOOD)
def test_scoped_names_are_accepted_everywhere(name: str) -> None:
    assert Capability(name).name == name
    assert Agent(name, (Capability(name),)).capabilities == (Capability(name),)
    task = Task.new(summary="", instructions="", runtime_kind="k", agent_name=name)
    assert task.agent_name == name


@pytest.mark.parametrize("name", BAD.values(), ids=BAD)
def test_other_names_are_refused_everywhere(name: str) -> None:
    names: Any = ("acme/fine", name)
    for make in (
        lambda: Capability(name),
        lambda: Agent(name),
        lambda: Agent("acme/clerk", names),
        lambda: Task.new(summary="", instructions="", runtime_kind="k", agent_name=name),
    ):
        with pytest.raises(InvalidValue) as caught:
            make()
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [None, 1, b"acme/clerk", ["acme", "clerk"], ("acme/clerk",)])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(InvalidValue, match=r"Capability.name: must be a string"):
        Capability(name)
    with pytest.raises(InvalidValue, match=r"Agent.name: must be a string"):
        Agent(name)


def test_a_long_bad_name_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidValue) as caught:
        Capability("x" * 10_000_000)
    assert len(str(caught.value)) < 300


def test_order_and_duplicates_of_capabilities_are_kept() -> None:
    names = ["b/b", "a/a", "b/b"]
    mixed: Any = [Capability(names[0]), names[1], names[2]]
    agent = Agent("acme/clerk", mixed)
    assert agent.capabilities == tuple(Capability(name) for name in names)


@pytest.mark.parametrize("capabilities", ["acme/clerk", None, 1, b"bytes"])
def test_capabilities_are_a_sequence(capabilities: Any) -> None:
    with pytest.raises(InvalidValue, match="capabilities"):
        Agent("acme/clerk", capabilities)


def test_a_bad_capability_is_named_by_its_place() -> None:
    with pytest.raises(InvalidValue) as caught:
        Agent("acme/clerk", ("acme/fine", "bad"))  # type: ignore[arg-type]
    assert caught.value.path == "Agent.capabilities[1]"


def test_an_agent_is_pure_data() -> None:
    metadata = {"acme/model": ["small"]}
    agent = Agent("acme/clerk", (Capability("acme/add"),), metadata)
    metadata["acme/model"].append("large")
    assert agent.metadata == {"acme/model": ["small"]}
    for copied in (copy.copy(agent), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert copied == agent
        assert hash(copied) == hash(agent)
    assert Agent("acme/clerk") != agent
    assert Agent("acme/clerk").metadata == {}
    assert {Capability("a/b"), Capability("a/b")} == {Capability("a/b")}


@pytest.mark.parametrize("metadata", [[], "x", {1: 2}, {"a": object()}])
def test_metadata_is_a_mapping_that_can_be_frozen(metadata: Any) -> None:
    with pytest.raises(InvalidValue, match=r"Agent.metadata"):
        Agent("acme/clerk", (), metadata)
