"""Values that make no sense are refused at once, and named; those of a Task at dispatch."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_ollama import OllamaPlanner, OllamaRuntime

from .asking import MODEL, failure, seen, task


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", ""),
        ("host", "ftp://127.0.0.1"),
        ("host", "http://127.0.0.1:port"),
        ("host", "http://127.0.0.1 \r\nX: y"),
        ("host", "http://me:word@127.0.0.1"),
        ("host", 11434),
        ("api_key", ""),
        ("api_key", "a\nb"),
        ("client", object()),
        ("timeout", 0),
        ("timeout", float("nan")),
        ("timeout", True),
        ("max_tokens", 0),
        ("temperature", 3),
        ("system", 1),
        ("tool_choice", "required"),
        ("tool_choice", "add"),
        ("stream", 1),
        ("offers", ["fly"]),
        ("offers", "think"),
        ("prices", {MODEL: 1.0}),
        ("context_tokens", 0),
        ("parallel_tool_calls", None),
        ("think", 1),
        ("think", ""),
        ("keep_alive", True),
        ("keep_alive", float("inf")),
        ("keep_alive", ""),
        ("options", ["num_ctx"]),
        ("options", {"seed": float("nan")}),
        ("options", {"seed": object()}),
        ("options", {"num_ctx": 0}),
        ("options", {"num_predict": 1}),
        ("options", {"temperature": 1}),
        ("pull", "yes"),
        ("hosted", ["web_search"]),
        ("seed", -1),
        ("stop", [""]),
        ("effort", "max"),
    ],
)
def test_a_bad_value_is_named(name: str, value: Any) -> None:
    for make in (OllamaPlanner, OllamaRuntime):
        with pytest.raises(InvalidValue) as caught:
            make(MODEL, **{name: value})
        assert caught.value.path.startswith(name)
        assert "word" not in str(caught.value).replace("name or password", "")


@pytest.mark.parametrize("model", ["", None, 3])
def test_a_model_has_a_name(model: Any) -> None:
    with pytest.raises(InvalidValue, match="model"):
        OllamaPlanner(model)


@pytest.mark.parametrize(
    "metadata",
    [
        {"max_tokens": 0},
        {"temperature": "hot"},
        {"tool_choice": "required"},
        {"input/images": "x"},
        {"input/images": [{"type": "image", "url": "https://example.org/a.png"}]},
        {"input/images": [{"type": "image", "media_type": "image/png", "data": "?"}]},
    ],
)
async def test_what_a_task_sets_is_looked_at_before_it_is_accepted(
    metadata: dict[str, Any],
) -> None:
    planner = OllamaPlanner(MODEL, host="127.0.0.1:9")
    asked = task(**metadata)
    [key] = asked.metadata
    with pytest.raises(CannotStart, match=key) as caught:
        await planner.accept(asked)
    assert caught.value.task_id == asked.id
    assert (await failure(planner, seen(task=asked))).code == "ollama/bad_options"
    await planner.close()


def test_the_size_of_the_context_bounds_a_prompt() -> None:
    for given in ({"options": {"num_ctx": 100}}, {"context_tokens": 100}):
        planner = OllamaPlanner(MODEL, **given)
        assert planner.worst_case(seen()).input_tokens == 100


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("seed", {"seed": 5, "options": {"seed": 6}}),
        ("stop", {"stop": "a", "options": {"stop": ["b"]}}),
        ("effort", {"effort": "low", "think": True}),
    ],
)
def test_an_option_is_given_once(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=f"{name}: is also in"):
        OllamaPlanner(MODEL, **given)


def test_a_task_replaces_an_option_of_the_model() -> None:
    planner = OllamaPlanner(MODEL, options={"seed": 6, "top_k": 3}, think=True)
    context = seen(task=task(seed=7, effort="high"))
    made, _ = planner._request(context, planner._options(context), ())
    assert made["options"] == {"seed": 7, "top_k": 3}
    assert made["think"] == "high"


def test_options_are_the_planners_own() -> None:
    options: dict[str, Any] = {"stop": ["."]}
    planner = OllamaPlanner(MODEL, options=options)
    options["stop"].append("!")
    options["num_ctx"] = 1
    made, _ = planner._request(seen(), planner.options, ())
    assert made["options"] == {"stop": ["."]}
