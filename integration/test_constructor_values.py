"""A value that no run can use is refused by the constructor of every ready runtime, by its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_claude import ClaudePlanner, ClaudeRuntime
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_engine.providers import Long, Price
from agentic_kernel_gemini import GeminiPlanner, GeminiRuntime
from agentic_kernel_local import Example, LocalRuntime
from agentic_kernel_ollama import OllamaRuntime
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIPlanner, OpenAIRuntime

LONE: Final = "a\ud800"
RUNTIMES: Final[dict[str, tuple[Callable[..., Any], dict[str, Any]]]] = {
    "claude": (ClaudeRuntime, {"model": "m"}),
    "copilot": (CopilotRuntime, {}),
    "gemini": (GeminiRuntime, {"model": "m"}),
    "local": (LocalRuntime, {}),
    "ollama": (OllamaRuntime, {"model": "m"}),
    "openai-chat": (OpenAIRuntime, {"model": "m", "api": "chat"}),
    "openai-responses": (OpenAIRuntime, {"model": "m"}),
}
CHAT: Final = ("openai-chat",)
RESPONSES: Final = ("openai-responses",)
OPENAI: Final = (*CHAT, *RESPONSES)
BODIES: Final = ("claude", "gemini", *OPENAI)
VENDORS: Final = ("claude", "gemini", "ollama", *OPENAI)
LOOPS: Final = (*VENDORS, "local")
ALL: Final = tuple(RUNTIMES)
SEEDED: Final = ("gemini", "local", "ollama", *CHAT)
STOPPED: Final = ("claude", *SEEDED)

Case = tuple[tuple[str, ...], str, list[Any], str]
"""The runtimes, the keyword, its bad values, and the path that the error names."""
CASES: Final[list[Case]] = [
    (LOOPS, "system", [LONE, "a\0", 5, True], "system"),
    (("copilot",), "system_message", [LONE, "a\0", 5], "system_message"),
    (("copilot",), "system_message", [{"content": LONE}], "system_message['content']"),
    (LOOPS, "tool_choice", [LONE, "a\0", "", " ", "a\n", 5], "tool_choice"),
    ((*VENDORS, "copilot"), "model", [LONE, "a\0", "", " ", "a\nb", "a ", "\u200b", 5], "model"),
    (("local",), "model", [LONE, "a\0", "", " ", 5], "model"),
    (LOOPS, "max_tokens", [10**30, 10**5000, 2**31, 0, -1, True, "5", 1.0, math.nan], "max_tokens"),
    (VENDORS, "context_tokens", [10**30, 10**5000, 0, True, "5", math.inf], "context_tokens"),
    (LOOPS, "temperature", [10**5000, math.nan, math.inf, -1, True, "1"], "temperature"),
    (LOOPS, "top_p", [10**5000, math.nan, -math.inf, -1, 2, True, "1"], "top_p"),
    (SEEDED, "seed", [10**30, -1, True, "1", 1.5, math.nan], "seed"),
    (STOPPED, "stop", [LONE, "a\0", "", [5], 5], "stop"),
    ((*VENDORS, "copilot"), "timeout", [10**5000, math.nan, math.inf, 0, -1, True, "1"], "timeout"),
    (("gemini", "claude", *OPENAI), "base_url", ["http://a/\ud800", "http://a\0", 5], "base_url"),
    (("ollama",), "host", ["http://a/\ud800", "http://a\0", 5], "host"),
    (VENDORS, "api_key", [LONE, "a\0", "a\nb", "", 5], "api_key"),
    (OPENAI, "organization", [LONE, "a\nb", 5], "organization"),
    (BODIES, "extra_body", [{"a": LONE}, {"a": "\0"}], "extra_body['a']"),
    (BODIES, "extra_body", [{LONE: 1}], "a key of extra_body"),
    (
        BODIES, "extra_body",
        [{"stream": False}, {"stream": True}, {"messages": []}, {"input": ""}, {"contents": 1}, 5],
        "extra_body",
    ),
    (BODIES, "extra_body", [{"tools": [5]}], "extra_body.tools[0]"),
    (LOOPS, "offers", [5, None, "think", [5], [[]], ["think", "think"], ["x"]], "offers"),
    (LOOPS, "middleware", [5, None, "x"], "middleware"),
    (ALL, "timer", [5, None], "timer"),
    (ALL, "clock", [5], "clock"),
    (ALL, "ids", [5], "ids"),
    (ALL, "tools", [5, None, {}, "x"], "tools"),
    (ALL, "tools", [[5], ["x"], [None]], "tools[0]"),
    (ALL, "tools", [[lambda: 1]], "tools[0].name"),
    (ALL, "limits", [{}, [], "", 0, False, 5, {"max_cost": 1}], "limits"),
    (ALL, "policy", [5, {}], "policy"),
    (ALL, "output_schema", [{"title": LONE}], "output_schema['title']"),
    (ALL, "output_schema", [5, "x", []], "output_schema"),
    (("local",), "examples", [5, "x"], "examples"),
    (("local",), "examples", [[5]], "examples[0]"),
    (
        ("local",), "examples",
        [[Example(LONE, ToolCall("t", {}), 1, 2)], [Example("a\0", ToolCall("t", {}), 1, 2)]],
        "examples[0].instructions",
    ),
    (
        ("local",), "examples", [[Example("a", ToolCall("t", {"x": LONE}), 1, 2)]],
        "examples[0].call.arguments['x']",
    ),
    (LOOPS, "seed_memory", [[LONE]], "seed_memory[0]"),
    (LOOPS, "runtime_kind", [5, "", LONE], "runtime_kind"),
    (LOOPS, "fallback", [5, "m"], "fallback"),
    (VENDORS, "fallback", [[" "], [LONE], ["a\n"]], "fallback[0]"),
    (VENDORS, "hosted", [5, "code", [[]], [5], [{}], ["fly"]], "hosted"),
    (("claude", "gemini", *RESPONSES), "hosted", [["code", "code"]], "hosted"),
    (
        ("claude", "gemini", *RESPONSES), "hosted",
        [{"code": 5}, {"code": [5]}, {"code": []}, {"code": [{}, {}]}], "hosted.code",
    ),
    (RESPONSES, "hosted", [{"mcp": {"server_url": 5}}], "hosted.mcp.server_url"),
    (RESPONSES, "hosted", [{"mcp": {"server_label": [5]}}], "hosted.mcp.server_label"),
    (RESPONSES, "hosted", [{"mcp": {"headers": {"a": "b\r\nc"}}}], "hosted.mcp.headers.a"),
    (RESPONSES, "hosted", [{"mcp": {"require_approval": 5}}], "hosted.mcp.require_approval"),
    (
        RESPONSES, "hosted",
        [{"file_search": {"vector_store_ids": 5}}, {"file_search": {"vector_store_ids": "vs_1"}}],
        "hosted.file_search.vector_store_ids",
    ),
    (
        ("gemini",), "hosted", [{"file_search": {"fileSearchStoreNames": [5]}}],
        "hosted.file_search.fileSearchStoreNames[0]",
    ),
    (("claude",), "hosted", [{"mcp": {"name": 5}}], "hosted.mcp.name"),
    (("ollama",), "think", ["bogus", "", LONE, 5], "think"),
    (
        ("ollama",), "keep_alive",
        ["bogus", "10", "", LONE, math.nan, -math.inf, 10**400, True], "keep_alive",
    ),
    (("ollama",), "options", [{"top_k": each} for each in (-1, 2**40, "x", True)], "options.top_k"),
    (("ollama",), "options", [{"seed": each} for each in (-2, True, 0.5)], "options.seed"),
    (("ollama",), "options", [{"min_p": each} for each in (1e300, True, "x")], "options.min_p"),
    (("ollama",), "options", [{"num_ctx": each} for each in (0, 2**40, "x")], "options.num_ctx"),
    (CHAT, "reasoning_effort", ["", " ", LONE, "a\0", 5], "reasoning_effort"),
    (RESPONSES, "reasoning", [{"effort": each} for each in ("", 5, "a\n")], "reasoning.effort"),
    (OPENAI, "api", [5, [], None, ""], "api"),
    (
        ("claude",), "thinking",
        [{"type": "enabled", "budget_tokens": each} for each in (-1, True, "x", 2**40)],
        "thinking.budget_tokens",
    ),
    (("claude",), "thinking", [{"type": 5}, {"type": ""}], "thinking.type"),
    (("gemini",), "thinking", [{"thinkingBudget": -2}], "thinking.thinkingBudget"),
    (("copilot",), "provider", [5, {"base_url": ""}], "provider"),
    (("copilot",), "provider", [{"base_url": 5}, {"base_url": "a"}], "provider.base_url"),
    (
        ("copilot",), "provider", [{"base_url": "http://a", "model_id": LONE}],
        "provider['model_id']",
    ),
    (("copilot",), "offline", [5, None], "offline"),
    (("copilot",), "allowed_tools", [5, "bash"], "allowed_tools"),
    (("copilot",), "allowed_tools", [[5], [LONE], [" "]], "allowed_tools[0]"),
    (("copilot",), "mcp_servers", [5, []], "mcp_servers"),
    (("copilot",), "mcp_servers", [{"a": 5}], "mcp_servers.a"),
    (("copilot",), "on_kill", [5, [], "x"], "on_kill"),
    (("copilot",), "working_directory", [5, "a\0", LONE, " "], "working_directory"),
    (("copilot",), "home", [5, "a\0", LONE, ""], "home"),
    (("copilot",), "cli_path", [5, "a\0", LONE, ""], "cli_path"),
    (("copilot",), "env", [5, {5: "x"}, {"a=b": "x"}, {"": "x"}], "env"),
    (("copilot",), "env", [{"a": 5}, {"a": "\0"}, {"a": LONE}], "env.a"),
]  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_a_bad_value_is_refused_by_the_name_that_the_user_typed(name: str) -> None:
    make, given = RUNTIMES[name]
    for names, keyword, bad, path in CASES:
        for index, value in enumerate(bad if name in names else ()):
            assert refused_at(make, {**given, keyword: value}) == path, (keyword, index)


def refused_at(make: Callable[..., Any], options: dict[str, Any]) -> str | None:
    """The path that the refusal names; None if the options are taken."""
    try:
        make(**options)
    except InvalidValue as error:
        return error.path
    return None


PRICES: Final[list[tuple[Any, str]]] = [
    (Price(math.nan, 1), "prices['m'].input"),
    (Price(-1, 1), "prices['m'].input"),
    (Price(True, 1), "prices['m'].input"),
    (Price(1, 10**400), "prices['m'].output"),
    (Price(1, 1, cached=math.inf), "prices['m'].cached"),
    (Price(1, 1, long=Long(-1, 1, 1)), "prices['m'].long.above"),
    (Price(1, 1, long=Long(1, math.nan, 1)), "prices['m'].long.input"),
    (Price(1, 1, long=5), "prices['m'].long"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("name", [each for each in ALL if each != "local"])
def test_a_price_that_no_cost_can_be_computed_from_is_refused(name: str) -> None:
    make, given = RUNTIMES[name]
    for price, path in PRICES:
        with pytest.raises(InvalidValue) as refused:
            make(**given, prices={"m": price})
        assert refused.value.path == path
    for model in (5, LONE, " "):
        with pytest.raises(InvalidValue, match="a key of prices"):
            make(**given, prices={model: Price(1, 1)})
    make(**given, prices={"m": Price(0, 0.5, 0, 1, Long(200_000, 2, 1.5))})


@pytest.mark.parametrize("name", ALL)
def test_an_unknown_keyword_names_the_class_that_was_called_and_the_nearest_keyword(
    name: str,
) -> None:
    make, given = RUNTIMES[name]
    for keyword, meant in (("modle", "model"), ("max_dispatchs", None), ("tolls", "tools")):
        with pytest.raises(TypeError) as refused:
            make(**given, **{keyword: 5})
        said = str(refused.value)
        assert said.startswith(f"{make.__name__}() has no keyword argument {keyword!r}")
        assert meant is None or f"did you mean {meant!r}?" in said
        assert "Planner" not in said


@pytest.mark.parametrize("name", ALL)
def test_the_values_beside_the_bad_ones_are_taken(name: str) -> None:
    make, given = RUNTIMES[name]
    taken: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (LOOPS, {"system": "", "max_tokens": 2**31 - 1, "temperature": 0, "offers": {"think"}}),
        (LOOPS, {"middleware": [], "tools": (), "limits": None, "runtime_kind": "é"}),
        (("ollama",), {"think": "high", "keep_alive": "1h30m", "options": {"seed": -1}}),
        (("ollama",), {"keep_alive": -1, "options": {"stop": ["\n"], "num_gpu": -1, "own": "x"}}),
        (("gemini",), {"thinking": {"thinkingBudget": -1, "includeThoughts": True}}),
        (BODIES, {"extra_body": {"model": "other", "tools": [{"type": "x"}], "top_k": "as given"}}),
        (CHAT, {"reasoning_effort": "a word of my server"}),
        (("copilot",), {"env": {"A": ""}, "mcp_servers": {"a": {"tools": ["*"]}}}),
        (
            RESPONSES,
            {
                "hosted": {
                    "mcp": {"server_label": "a", "server_url": "https://a/?key=b"},
                    "code": {},
                }
            },
        ),
    ]
    for names, options in taken:
        if name in names:
            make(**{**given, **options})


@pytest.mark.parametrize(
    "planner", [ClaudePlanner, GeminiPlanner, OpenAIChatPlanner, OpenAIPlanner]
)
def test_a_secret_anywhere_in_the_extra_body_is_in_no_failure(planner: Any) -> None:
    extra = {
        "mcp_servers": [{"name": "wiki", "authorization_token": "tok-0123456789"}],
        "tools": [{"type": "x", "servers": [{"headers": {"X-Api-Key": "key-0123456789"}}]}],
        "vault": {"aws_secret_access_key": "abcdefghijkl"},
        "metadata": {"author": "Jane Austen"},
    }
    failures = planner("m", extra_body=extra).failures
    said = failures.failure("x", "tok-0123456789 key-0123456789 abcdefghijkl Jane Austen").message
    assert "0123456789" not in said
    assert "abcdefghijkl" not in said
    assert said.endswith("Jane Austen")
