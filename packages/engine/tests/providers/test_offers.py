"""The Loop's own actions, offered to a model as functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import tool
from agentic_kernel_engine.loop import AskUser, Delegate, FinalAnswer, Stop, ToolCall
from agentic_kernel_engine.providers import (
    OFFERS,
    Asked,
    Malformed,
    actions_of,
    final_answer,
    functions,
    offered,
)
from agentic_kernel_engine.providers.offers import offer_of
from agentic_kernel_engine.tools.schema import compile_schema

from .seen import add

EVERYTHING = functions([add], offered(OFFERS))


@pytest.mark.parametrize("name", OFFERS)
def test_every_offer_gives_its_action_and_takes_it_back(name: str) -> None:
    offer = OFFERS[name]
    arguments = {part: f"the {part}" for part in offer.schema["properties"]}
    assert compile_schema(offer.schema)(arguments) is None
    action = offer.action(arguments)
    assert offer_of(action) is offer
    assert offer.arguments(action) == arguments


def test_calls_become_actions_in_their_order() -> None:
    calls = [
        Asked("1", "add", '{"a": 1, "b": 2}'),
        Asked("2", "ask_user", '{"question": "which?"}'),
        Asked("3", "nowhere", ""),
    ]
    actions, names = actions_of(calls, EVERYTHING)
    assert actions == (
        ToolCall("add", {"a": 1, "b": 2}, "1"), AskUser("which?"), ToolCall("nowhere", {}, "3"),
    )  # fmt: skip
    assert names == ("", "2", "")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", '{"a": 1'),
        ("add", "[1, 2]"),
        ("add", "null"),
        ("add", '{"a": NaN}'),
        ("add", '{"a": ' + "[" * 200 + "]" * 200 + "}"),
        ("add", '{"a": 1180591620717411303424}'),
    ],
)
def test_arguments_that_are_none_are_malformed(name: str, arguments: str) -> None:
    with pytest.raises(Malformed, match=name):
        actions_of([Asked("1", name, arguments)], EVERYTHING)


@pytest.mark.parametrize("arguments", [{}, {"text": 1}, {"text": "g", "why": "w"}])
@pytest.mark.parametrize("name", ["push_goal", "think"])
def test_an_offer_whose_arguments_do_not_fit_is_a_call_that_is_refused(
    name: str, arguments: dict[str, Any]
) -> None:
    calls = [Asked("1", name, json.dumps(arguments)), Asked("2", "stop", '{"reason": "r"}')]
    (refused, stop), names = actions_of(calls, EVERYTHING)
    assert refused == ToolCall(
        name, arguments, "1",
        f"arguments: {name} takes exactly these, each a string: text; nothing was done; correct "
        "the arguments and call again",
    )  # fmt: skip
    assert (stop, names) == (Stop("r"), ("", "2"))


def test_a_tool_keeps_its_name() -> None:
    @tool(name="ask_user", effect="none", inline=True)
    def own(question: str) -> str:
        """Ask somebody else."""
        return question

    shown = functions([own], offered(["ask_user"]))
    assert [each.name for each in shown] == ["ask_user"]
    actions, names = actions_of([Asked("1", "ask_user", '{"question": "q"}')], shown)
    assert actions == (ToolCall("ask_user", {"question": "q"}, "1"),)
    assert names == ("",)


def test_an_unknown_offer_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidValue, match="ask_user, think"):
        offered(["ask"])
    with pytest.raises(InvalidValue, match="is 'ask_user'; give a list"):
        offered("ask_user")


def test_children_are_joined_and_cancelled_by_name() -> None:
    assert OFFERS["cancel"].action({"child": "c"}) == Delegate("cancel", child="c")


def test_a_final_answer_is_the_text_or_the_json_that_a_schema_asks_for() -> None:
    assert final_answer('{"n": 1}', None) == FinalAnswer('{"n": 1}')
    assert final_answer('{"n": 1}', {"type": "object"}) == FinalAnswer({"n": 1})
    assert final_answer("sorry", {"type": "object"}).output == "sorry"
    deep = "[" * 200 + "]" * 200
    assert final_answer(deep, {"type": "object"}).output == deep


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('{"a": 9223372036854775808}', "JSON that no store accepts.*outside 64 bits"),
        ('{"a": "\\u0000"}', "JSON that no store accepts.*NUL"),
        ('{"a": 1,}', "not JSON.*trailing comma"),
    ],
    ids=["an integer", "NUL", "not JSON"],
)
def test_arguments_that_cannot_be_kept_are_told_apart_from_those_that_are_not_json(
    given: str, why: str
) -> None:
    with pytest.raises(Malformed, match=f"the arguments of add are {why}"):
        actions_of([Asked("1", "add", given)], [])
