"""Tools from typed functions: what their annotations and docstrings become."""

from __future__ import annotations

import dataclasses
import enum
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict, Union

import msgspec
import pydantic
import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.action import ToolCall
from agentic_kernel_engine.plans.observation import SCHEMA_VALIDATION_FAILED, Observation
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.tools.call import Invocation, perform
from agentic_kernel_engine.tools.output_type import OutputType
from agentic_kernel_engine.tools.schema import compile_schema
from agentic_kernel_engine.tools.tool import Tool, ToolContext, Tools, tool


async def call(target: Tool, **arguments: Any) -> Observation:
    told = ToolContext("task-1", 0, 0, "key", NOBODY, lambda _: None)
    return await perform(Invocation(target, arguments, ToolCall(target.name, arguments), told))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Tree(TypedDict):
    name: str
    kids: NotRequired[list[Tree]]


@tool(effect="read", timeout=5, scopes=["maps"])
async def route(
    start: Point,
    end: Point,
    by: Literal["car", "train"] = "car",
    avoid: Sequence[str] = (),
    color: Color = Color.RED,
    limit: Annotated[int | None, "In minutes."] = None,
    speed: Annotated[float, msgspec.Meta(gt=0, description="In km/h.")] = 50.0,
) -> dict[str, float]:
    """Find a way,
    and tell how long it is.

    More that nobody needs.

    Args:
        start: Where it begins.
        end (Point): Where it ends: over
            there.

        by: How to travel.
        nobody: No parameter.
        limit: Not this text.

    Returns:
        start: Not this one either.
    """
    return {"length": float(end.x - start.x) / speed}


def test_the_schema_is_made_from_annotations_docstring_and_defaults() -> None:
    assert (route.name, route.effect, route.timeout) == ("route", "read", 5)
    assert route.scopes == {"maps"}
    assert route.description == "Find a way, and tell how long it is."
    assert route.input_schema == {
        "type": "object",
        "properties": {
            "start": {"$ref": "#/$defs/Point", "description": "Where it begins."},
            "end": {"$ref": "#/$defs/Point", "description": "Where it ends: over there."},
            "by": {"enum": ["car", "train"], "description": "How to travel.", "default": "car"},
            "avoid": {"type": "array", "items": {"type": "string"}, "default": []},
            "color": {"$ref": "#/$defs/Color", "default": "red"},
            "limit": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": "In minutes.",
                "default": None,
            },
            "speed": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "In km/h.",
                "default": 50.0,
            },
        },
        "required": ["end", "start"],
        "additionalProperties": False,
        "$defs": {
            "Color": {"title": "Color", "enum": ["blue", "red"]},
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        },
    }
    assert route.output_schema == {"type": "object", "additionalProperties": {"type": "number"}}


async def test_arguments_arrive_as_what_the_annotations_say() -> None:
    seen: list[Any] = []

    def grab(
        point: Point, color: Color, pair: tuple[int, str], tree: Tree, some: Point | None = None
    ) -> None:
        seen.extend([point, color, pair, tree, some])

    tree = {"name": "a", "kids": [{"name": "b"}]}
    observation = await call(
        tool(grab, inline=True), point={"x": 1}, color="blue", pair=[1, "a"], tree=tree,
        some={"x": 2},
    )  # fmt: skip
    assert observation.ok, observation
    assert seen == [Point(1), Color.BLUE, (1, "a"), tree, Point(2)]


TAKEN: list[tuple[Any, Any, Any]] = [
    (str, "a", 1),
    (int, 1, "a"),
    (float, 1.5, "a"),
    (bool, True, 1),
    (None, None, 1),
    (Any, [1], ...),
    (list, [1, "a"], {}),
    (dict, {"a": 1}, []),
    (list[int], [1], ["a"]),
    (dict[str, int], {"a": 1}, {"a": "b"}),
    (Mapping[str, bool], {"a": True}, {"a": 1}),
    (tuple[int, ...], [1, 2], ["a"]),
    (tuple[int, str], [1, "a"], [1]),
    (Literal["a", 1, None], 1, 2),
    (Union[int, str], "a", []),  # noqa: UP007
    (int | None, None, "a"),
    (Color, "red", "green"),
    (Point, {"x": 1}, {"y": 1}),
    (Tree, {"name": "a", "kids": [{"name": "b"}]}, {"name": "a", "kids": [{}]}),
    (Annotated[int, msgspec.Meta(ge=3)], 3, 2),
    (set[int], [1], [1, 1]),
]


@pytest.mark.parametrize(("annotation", "fits", "misfit"), TAKEN, ids=map(str, range(len(TAKEN))))
async def test_an_annotation_takes_what_fits_and_refuses_what_does_not(
    annotation: Any, fits: Any, misfit: Any
) -> None:
    async def target(given):  # type: ignore[no-untyped-def]
        return "ran"

    target.__annotations__ = {"given": annotation}
    made = tool(target)
    assert (await call(made, given=fits)).output == "ran"
    if misfit is not ...:
        observation = await call(made, given=misfit)
        assert observation.error == SCHEMA_VALIDATION_FAILED
        assert observation.message.startswith("arguments['given']")


async def test_a_whole_number_with_a_point_is_no_integer_for_python() -> None:
    def target(a: int) -> int:
        return a

    observation = await call(tool(target, inline=True), a=1.0)
    assert observation.error == SCHEMA_VALIDATION_FAILED
    assert observation.message == "arguments: Expected `int`, got `float` - at `$.a`"


async def test_any_parameter_name_may_be_used() -> None:
    def target(self: int, __x: int, tool: int, arguments: int, context: int) -> list[int]:
        return [self, __x, tool, arguments, context]

    given = {"self": 1, "__x": 2, "tool": 3, "arguments": 4, "context": 5}
    assert (await call(tool(target, inline=True), **given)).output == [1, 2, 3, 4, 5]


def unannotated(a):  # type: ignore[no-untyped-def]
    ...


def several(*paths: str) -> None: ...


def anything(**options: str) -> None: ...


def positional(a: int, /) -> None: ...


def impossible(a: complex) -> None: ...


def opaque(a: object) -> None: ...


def callback(a: Callable[[], None]) -> None: ...


def ambiguous(a: Point | Tree) -> None: ...


def unresolved(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unannotated, "unannotated(a): has no annotation"),
        (several, "several(paths): is not passed by name"),
        (anything, "anything(options): is not passed by name"),
        (positional, "positional(a): is not passed by name"),
        (impossible, "impossible(a): has an annotation without a JSON form"),
        (opaque, "opaque(a): has an annotation without a JSON form"),
        (callback, "callback(a): has an annotation without a JSON form"),
        (ambiguous, "ambiguous(a): has an annotation without a JSON form"),
        (unresolved, "unresolved: has an annotation that cannot be resolved"),
        (lambda: None, "name: is '<lambda>'"),
    ],
)
def test_a_parameter_that_cannot_be_an_argument_is_named(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        tool(function)
    assert words in str(caught.value)


@pytest.mark.parametrize("returned", [Any, object, complex, Callable[[], None]])
def test_a_return_annotation_that_says_nothing_is_no_schema(returned: Any) -> None:
    def target() -> None: ...

    target.__annotations__ = {"return": returned}
    assert tool(target).output_schema is None


def test_a_function_without_parameters_and_docstring_is_a_tool() -> None:
    def ping() -> None: ...

    made = tool(ping, name="ping-pong", description="Plays.")
    assert (made.name, made.description) == ("ping-pong", "Plays.")
    assert made.input_schema == {
        "type": "object", "properties": {}, "additionalProperties": False,
    }  # fmt: skip
    assert made.output_schema == {"type": "null"}
    assert tool(ping).description == ""


def test_a_default_without_a_json_form_is_left_to_the_function() -> None:
    def target(a: Any = object) -> None: ...

    assert tool(target).input_schema["properties"] == {"a": {}}


def test_schemas_made_from_functions_are_accepted_by_the_validator() -> None:
    for made in (route, tool(returns_tree)):
        compile_schema(made.input_schema)
        assert made.output_schema is not None
        compile_schema(made.output_schema)


def returns_tree(tree: Tree) -> Tree:
    return tree


async def test_a_recursive_type_is_checked_to_its_depth() -> None:
    made = tool(returns_tree, inline=True)
    good = {"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]}
    assert (await call(made, tree=good)).output == good
    bad = {"name": "a", "kids": [{"name": "b", "kids": [{"name": 3}]}]}
    message = (await call(made, tree=bad)).message
    assert message.startswith("arguments['tree']['kids'][0]['kids'][0]['name']: is not of type")


# Pydantic, for those who have it


class Part(pydantic.BaseModel):
    name: str
    count: int = pydantic.Field(default=1, gt=0, description="How many.")
    parts: list[Part] = []


class Order(pydantic.BaseModel):
    part: Part
    note: str | None = None

    @pydantic.field_validator("note")
    @classmethod
    def polite(cls, note: str) -> str:
        if note == "rude":
            raise ValueError("be polite")
        return note.strip()


@tool
async def order(first: Order, others: list[Order] | None = None) -> Order:
    """Order."""
    assert type(first) is Order
    assert all(type(each) is Order for each in others or ())
    return first


async def test_pydantic_models_are_arguments_and_results() -> None:
    definitions = order.input_schema["$defs"]
    assert list(definitions) == ["Part"]
    assert definitions["Part"]["properties"]["count"]["description"] == "How many."
    given = {"part": {"name": "a", "parts": [{"name": "b"}]}, "note": " soon "}
    observation = await call(order, first=given, others=[given])
    assert observation.output == {
        "part": {"name": "a", "count": 1, "parts": [{"name": "b", "count": 1, "parts": []}]},
        "note": "soon",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"part": {"name": 3}}, "arguments['first']['part']['name']: is not of type \"string\""),
        ({"part": {"name": "a", "count": 0}}, "['count']: is less than or equal to the minimum"),
        ({"part": {"name": "a"}, "note": "rude"}, "be polite"),
    ],
)
async def test_what_a_model_refuses_the_tool_refuses(given: Any, words: str) -> None:
    observation = await call(order, first=given)
    assert observation.error == SCHEMA_VALIDATION_FAILED
    assert words in observation.message


def test_a_field_of_pydantic_outside_of_a_model_is_refused_and_not_ignored() -> None:
    def target(a: int) -> None: ...

    target.__annotations__ = {"a": Annotated[int, pydantic.Field(gt=3)]}
    with pytest.raises(InvalidValue, match=r"target\(a\): is annotated with a pydantic field"):
        tool(target)


class Named(TypedDict):
    a: Annotated[str, pydantic.Field(max_length=2)]


@dataclasses.dataclass
class Nested:
    items: list[Named]
    more: Nested | None = None


@pytest.mark.parametrize(
    ("kind", "place", "found"),
    [
        (Annotated[int, pydantic.Field(gt=3, lt=5)], "", "a pydantic field"),
        (pydantic.PositiveInt, "", "annotated_types"),
        (list[Annotated[int, pydantic.Field(gt=3)]], "", "a pydantic field"),
        (dict[str, pydantic.PositiveInt] | None, "", "annotated_types"),
        (Named, ".a", "a pydantic field"),
        (Nested, ".items.a", "a pydantic field"),
    ],
)
def test_a_bound_that_would_be_dropped_is_refused_wherever_it_is(
    kind: Any, place: str, found: str
) -> None:
    def target(a: int) -> None: ...

    target.__annotations__ = {"a": kind}
    words = f"{place}: is annotated with {found}; use msgspec.Meta, or a pydantic model"
    with pytest.raises(InvalidValue, match=re.escape("target(a)" + words)):
        tool(target)
    with pytest.raises(InvalidValue, match=re.escape("output_type" + words)):
        OutputType(kind)


class Bounded(pydantic.BaseModel):
    a: Annotated[int, pydantic.Field(gt=3)]


@dataclasses.dataclass
class Holding:
    model: Bounded
    b: Annotated[int, msgspec.Meta(gt=3)]


def test_bounds_of_meta_and_in_a_model_hold() -> None:
    wanted = OutputType(Holding)
    assert wanted.problem({"model": {"a": 4}, "b": 4}) is None
    assert wanted.problem({"model": {"a": 4}, "b": 3}) is not None
    assert wanted.problem({"model": {"a": 3}, "b": 4}) is not None


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


def test_an_output_type_is_refused_without_a_call_of_its_code() -> None:
    wrong: Any = Unprintable()
    with pytest.raises(InvalidValue, match=r"output_type: is .*; give a type"):
        OutputType(wrong)


@pytest.mark.parametrize(
    "given",
    [int, type, staticmethod(order)],  # type: ignore[arg-type]
    ids=["int", "type", "wrapped"],
)
def test_a_callable_without_a_signature_is_refused_by_its_place(given: Any) -> None:
    with pytest.raises(InvalidValue, match=r"tools\[0\]"):
        Tools(given)


def test_pydantic_is_not_imported_by_the_engine() -> None:
    program = (
        "import sys\n"
        "from agentic_kernel_engine.tools.tool import tool\n"
        "def add(a: int) -> int: return a\n"
        "tool(add)\n"
        "assert 'pydantic' not in sys.modules and 'jsonschema_rs' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_generator_function_is_no_tool() -> None:
    def numbers(a: int) -> Any:
        yield a

    async def later(a: int) -> Any:
        yield a

    class Called:
        def __call__(self, a: int) -> Any:
            yield a

    for function in (numbers, later, Called()):
        with pytest.raises(InvalidValue, match="is a generator function"):
            tool(function)
