"""The catalog: names, capabilities, agents."""

from __future__ import annotations

import copy
import pickle
import sys
import unicodedata
from collections import UserList
from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel import Agent, Capability, InvalidValue, Task, annotate

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
    "hangul-filler": "acme/\u3164",
    "hangul-choseong-filler": "acme/cl\u115ferk",
    "hangul-jungseong-filler": "acme/cl\u1160erk",
    "halfwidth-filler": "\uffa0/clerk",
    "braille-blank": "acme/\u2800",
    "variation-selector": "acme/clerk\ufe0f",
    "grapheme-joiner": "acme/cl\u034ferk",
    "khmer-vowel": "acme/cl\u17b4erk",
    "mongolian-selector": "acme/cl\u180berk",
    "tag": "acme/clerk\U000e0041",
    "variation-selector-256": "acme/clerk\U000e01ef",
    "null-notehead": "acme/\U0001d159",
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


HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
IGNORABLE = [
    *range(0x034F, 0x0350), 0x061C, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6),
    *range(0x180B, 0x1810), *range(0x200B, 0x2010), *range(0x202A, 0x202F),
    *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]  # fmt: skip
"""Default_Ignorable_Code_Point of the Unicode Character Database."""


def test_no_character_that_a_reader_cannot_see_is_part_of_a_name() -> None:
    """Every code point, so that no list of examples stands for the kind."""
    unseen = {*IGNORABLE, 0x2800, 0x1D159, 0x13441, 0x13442, 0x16FE4}
    seen = []
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if code not in unseen and category not in HIDDEN:
            seen.append(chr(code))
        elif code in unseen or category not in ("Cn", "Co") or code % 997 == 0:
            with pytest.raises(InvalidValue):
                Capability(f"a/b{chr(code)}c")
    Capability("a/" + "".join(seen).replace("/", ""))


def test_an_invisible_character_is_named() -> None:
    with pytest.raises(InvalidValue, match=r"U\+3164; remove it"):
        Capability("acme/\u3164")
    task = Task.new(summary="", instructions="", runtime_kind="k")
    with pytest.raises(InvalidValue, match=r"U\+FE0F; remove it"):
        annotate(task, {"acme/x\ufe0f": 1})


def test_a_snapshot_keeps_a_name_that_an_earlier_version_accepted() -> None:
    """Rule 2: one that was stored is read; a new one is refused."""
    task = Task("t", "", "", "k", "acme/\u3164", created_at=datetime.now(UTC))
    assert task.agent_name == "acme/\u3164"


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


NO_LISTS = ["acme/clerk", None, 1, b"bytes", range(10**9), {"a/b": 1}, {"a/b"}, UserList(["a/b"])]


@pytest.mark.parametrize("capabilities", NO_LISTS, ids=map(str, range(len(NO_LISTS))))
def test_capabilities_are_a_list_or_tuple(capabilities: Any) -> None:
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
