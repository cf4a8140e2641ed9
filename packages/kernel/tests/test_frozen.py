"""Frozen values: equal to what came in, independent of it, immutable to any depth."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import sys
from collections import ChainMap, OrderedDict, UserDict, UserList, UserString, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel import frozen as frozen_module
from agentic_kernel.frozen import FrozenDict, FrozenList, freeze

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@settings(derandomize=True, max_examples=150)
@given(PLAIN)
def test_a_frozen_value_equals_the_plain_one_wherever_it_goes(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert value == frozen
    assert json.dumps(frozen) == json.dumps(value)
    assert freeze(frozen) is frozen
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(frozen, protocol))
        assert again == value
        assert type(again) is type(frozen)


@settings(derandomize=True, max_examples=150)
@given(PLAIN)
def test_no_container_of_the_source_is_kept(value: Any) -> None:
    kept = {id(each) for each in _containers(freeze(value))}
    assert kept.isdisjoint(id(each) for each in _containers(value))
    assert all(type(each) in (FrozenDict, FrozenList) for each in _containers(freeze(value)))


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


# Nothing can be changed

DICT_CHANGES: dict[str, Callable[[Any], object]] = {
    "set": lambda d: d.__setitem__("a", 1),
    "set-new": lambda d: d.__setitem__("new", 1),
    "delete": lambda d: d.__delitem__("a"),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("a"),
    "pop-default": lambda d: d.pop("absent", None),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: d.setdefault("a", 1),
    "update": lambda d: d.update({"a": 1}),
    "or": lambda d: d.__ior__({"a": 1}),
    "attribute": lambda d: setattr(d, "a", 1),
}
LIST_CHANGES: dict[str, Callable[[Any], object]] = {
    "set": lambda v: v.__setitem__(0, 1),
    "set-slice": lambda v: v.__setitem__(slice(0, 1), []),
    "delete": lambda v: v.__delitem__(0),
    "append": lambda v: v.append(1),
    "extend": lambda v: v.extend([1]),
    "insert": lambda v: v.insert(0, 1),
    "remove": lambda v: v.remove(1),
    "pop": lambda v: v.pop(),
    "clear": lambda v: v.clear(),
    "sort": lambda v: v.sort(),
    "reverse": lambda v: v.reverse(),
    "add": lambda v: v.__iadd__([1]),
    "multiply": lambda v: v.__imul__(2),
    "attribute": lambda v: setattr(v, "a", 1),
}


@pytest.mark.parametrize("change", DICT_CHANGES.values(), ids=DICT_CHANGES)
def test_a_frozen_dict_refuses_every_change(change: Callable[[Any], object]) -> None:
    value = freeze({"a": {"a": 1}})
    for each in (value, value["a"]):
        with pytest.raises((TypeError, AttributeError)):
            change(each)
    value.__init__({"b": 2})
    assert value == {"a": {"a": 1}}


@pytest.mark.parametrize("change", LIST_CHANGES.values(), ids=LIST_CHANGES)
def test_a_frozen_list_refuses_every_change(change: Callable[[Any], object]) -> None:
    value = freeze([[1, 2], 3])
    for each in (value, value[0]):
        with pytest.raises((TypeError, AttributeError)):
            change(each)
    value.__init__([4])
    assert value == [[1, 2], 3]


def test_every_changing_method_of_the_builtins_is_covered() -> None:
    """A method that a later Python adds shows up here."""
    reading = {"copy", "fromkeys", "get", "items", "keys", "values", "count", "index"}
    for frozen, changes in ((FrozenDict, DICT_CHANGES), (FrozenList, LIST_CHANGES)):
        names = {name for name in dir(frozen.__mro__[1]) if not name.startswith("_")} - reading
        assert names <= set(changes)
        assert all(getattr(frozen, name) is not getattr(frozen.__mro__[1], name) for name in names)


def test_a_refusal_says_how_to_go_on() -> None:
    with pytest.raises(TypeError, match=r"FrozenDict is immutable; build a new value with dict"):
        freeze({})["a"] = 1


def test_plain_copies_can_be_changed() -> None:
    value = freeze({"a": [1]})
    for plain in (dict(value), value.copy(), value | {}):
        plain["b"] = 2
    for listed in (list(value["a"]), value["a"].copy(), value["a"] + [], value["a"][:]):
        listed.append(2)
    assert value == {"a": [1]}


def test_frozen_types_can_be_made_by_name() -> None:
    source = [{"b": 1}]
    made = FrozenDict(a=source)
    source[0]["b"] = 2
    assert made == {"a": [{"b": 1}]}
    assert FrozenList((1, [2])) == [1, [2]]
    assert FrozenList() == []


# What is accepted


class Colour(str, Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Text(str):
    __slots__ = ()


class Fresh(Sequence[Any]):
    """Hands out new lists on every access, which are gone as soon as they were read."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return [index, {"index": [index]}]


RICHER: dict[str, tuple[Any, Any]] = {
    "enum": (Colour.RED, "red"),
    "int-enum": (Level.HIGH, 3),
    "str-subclass": (Text("text"), "text"),
    "bool": (True, True),
    "tuple": ((1, (2,)), [1, [2]]),
    "namedtuple": (Point(1, 2), [1, 2]),
    "deque": (deque([1]), [1]),
    "user-list": (UserList([1, UserDict({"a": 1})]), [1, {"a": 1}]),
    "ordered-dict": (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "mapping-proxy": (MappingProxyType({"a": (1,)}), {"a": [1]}),
    "chain-map": (ChainMap({"a": 1}, {"b": 2}), {"b": 2, "a": 1}),
    "enum-key": ({Colour.RED: Level.HIGH}, {"red": 3}),
    "infinity": (math.inf, math.inf),
    "5000-digits": (10**5000, 10**5000),
    "surrogate-and-nul": ("\ud800\0", "\ud800\0"),
}


@pytest.mark.parametrize(("value", "plain"), RICHER.values(), ids=RICHER)
def test_values_of_richer_types_become_plain_ones(value: Any, plain: Any) -> None:
    frozen = freeze([value])[0]
    assert frozen == plain
    assert type(frozen) in (str, int, bool, float, FrozenList, FrozenDict)
    if isinstance(frozen, dict):
        assert all(type(key) is str for key in frozen)
        assert list(frozen) == list(plain)


def test_containers_made_on_the_fly_are_not_confused_with_each_other() -> None:
    assert freeze(Fresh()) == [[index, {"index": [index]}] for index in range(100)]


def test_a_value_used_twice_is_frozen_once() -> None:
    shared = [1]
    frozen = freeze({"a": shared, "b": (shared, shared)})
    assert frozen == {"a": [1], "b": [[1], [1]]}
    assert frozen["a"] is frozen["b"][0] is frozen["b"][1]


def test_a_value_that_doubles_at_each_level_is_frozen_in_linear_time() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [value, value]
    frozen = freeze(value)
    for _ in range(200):
        assert frozen[0] is frozen[1]
        frozen = frozen[0]


@pytest.mark.parametrize("depth", [5_000, 100_000])
@pytest.mark.parametrize("kind", ["list", "tuple", "dict"])
def test_depth_is_bounded_by_memory_alone(depth: int, kind: str) -> None:
    value: Any = None
    for _ in range(depth):
        value = {"list": [value], "tuple": (value,), "dict": {"k": value}}[kind]
    frozen = freeze(value)
    reached = 0
    while frozen is not None:
        frozen = frozen["k" if kind == "dict" else 0]
        reached += 1
    assert reached == depth


# What is refused, and where it sat


class Endless(UserString):
    """Each character of a UserString is another UserString; whoever walks into it is stopped."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        Endless.reads += 1
        assert Endless.reads < 1_000, "walked into a text as if it were a list"
        return super().__getitem__(index)


class Rude:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


REFUSED: dict[str, tuple[Any, str, str]] = {
    "set": ({"a": [1, {"b": {1}}]}, "value['a'][1]['b']", "set"),
    "object": ([object()], "value[0]", "object"),
    "bytes": ({"a": b"bytes"}, "value['a']", "bytes"),
    "bytearray": ({"a": bytearray()}, "value['a']", "bytearray"),
    "memoryview": ({"a": memoryview(b"")}, "value['a']", "memoryview"),
    "complex": ({"a": 1j}, "value['a']", "complex"),
    "iterator": ({"a": iter([])}, "value['a']", "list_iterator"),
    "view": ({"a": {}.keys()}, "value['a']", "dict_keys"),
    "endless-text": ({"a": Endless("ab")}, "value['a']", "Endless"),
    "unshowable": ({"a": Rude()}, "value['a']", "Rude"),
    "top": (len, "value", "builtin_function_or_method"),
    "int-key": ({1: "a"}, "value", "key of type int"),
    "none-key": ([{"a": {None: 1}}], "value[0]['a']", "key of type NoneType"),
    "5000-digit-key": ({10**5000: 1}, "value", "key of type int"),
    "unshowable-key": ({Rude(): 1}, "value", "key of type Rude"),
    "10-mb-key": ({"x" * 10_000_000: {1}}, "value['xxx", "set"),
    "escape-key": ({"a\nb\x1b[31m\u202e": {1}}, r"value['a\nb\x1b[31m\u202e']", "set"),
}


@pytest.mark.parametrize(("value", "path", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_where_and_what(value: Any, path: str, reason: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        freeze(value)
    assert caught.value.path.startswith(path)
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_the_path_of_a_deep_refusal_stays_short() -> None:
    value: Any = {1}
    for _ in range(5_000):
        value = [value]
    with pytest.raises(InvalidValue) as caught:
        freeze(value)
    assert caught.value.path == f"value{'[0]' * 6}…(4991 more)…{'[0]' * 3}"


def test_cycles_are_refused() -> None:
    direct: list[Any] = []
    direct.append(direct)
    first: dict[str, Any] = {}
    second = {"first": [first]}
    first["second"] = second
    for value, path in ((direct, "value[0]"), (first, "value['second']['first'][0]")):
        with pytest.raises(InvalidValue, match="contains itself") as caught:
            freeze(value)
        assert caught.value.path == path


class Forever(Sequence[Any]):
    """A sequence without an end, of what ``make`` makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.reads = 0

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return self.make()


class Posing(list[Any]):
    """A list that is not what it holds."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.count()


class Endlessly(Mapping[str, Any]):
    """A mapping without an end."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __getitem__(self, key: str) -> Any:
        return key


def deeper() -> Any:
    return Forever(deeper)


ENDLESS: dict[str, Callable[[], Any]] = {
    "range": lambda: range(10**9),
    "huge-range": lambda: range(10**30),
    "sequence": lambda: Forever(lambda: 1),
    "of-lists": lambda: Forever(lambda: [1]),
    "ever-deeper": deeper,
    "list-subclass": Posing,
    "mapping": Endlessly,
    "many-short-ones": lambda: [range(n) for n in range(2_000)],
}


@pytest.mark.parametrize(
    "make",
    [
        # As many lists are made as may be held, which takes a while.
        pytest.param(make, id=name, marks=[pytest.mark.torture] if name == "of-lists" else [])
        for name, make in ENDLESS.items()
    ],
)
def test_what_does_not_end_is_refused(make: Callable[[], Any]) -> None:
    for value in (make(), {"a/b": make()}):
        with pytest.raises(InvalidValue, match=r"yields over 100,000 items; copy") as caught:
            freeze(value, "metadata")
        assert caught.value.path.startswith("metadata")
        assert len(str(caught.value)) < 500


class Broken(Sequence[Any]):
    """Fails where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        if self.where == "item" or index == 1:
            raise RuntimeError("no")
        return index

    def __iter__(self) -> Iterator[Any]:
        if self.where == "iter":
            raise RuntimeError("no")
        return super().__iter__()


class NoPairs(dict[str, Any]):
    def items(self) -> Any:
        return iter([1, 2])


@pytest.mark.parametrize("value", [Broken("item"), Broken("iter"), Broken("late"), NoPairs(a=1)])
def test_a_container_that_cannot_be_read_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"value\['a'\]"):
        freeze({"a": value})


def test_the_walk_is_linear_in_what_is_there() -> None:
    """Counted in lines that run: a shared part is walked once, however often it occurs."""

    def lines(value: Any) -> int:
        ran = 0

        def count(frame: Any, event: str, _: Any) -> Any:
            nonlocal ran
            ran += event == "line"
            return count if frame.f_code.co_filename == frozen_module.__file__ else None

        before = sys.gettrace()
        sys.settrace(count)
        try:
            freeze(value)
        finally:
            sys.settrace(before)
        return ran

    def doubled(levels: int) -> Any:
        value: list[Any] = [1]
        for _ in range(levels):
            value = [value, value]
        return value

    def nested(levels: int) -> Any:
        value: list[Any] = [1]
        for _ in range(levels):
            value = [value]
        return value

    shapes: list[Callable[[int], Any]] = [
        doubled, nested, lambda n: [[index] for index in range(n)],
        lambda n: {str(index): {"a": [index]} for index in range(n)}, lambda n: [range(n)],
    ]  # fmt: skip
    for shape in shapes:
        assert lines(shape(2_000)) <= 2.2 * lines(shape(1_000))


def test_mappings_are_read_once() -> None:
    class Once(Mapping[str, Any]):
        reads = 0

        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[str]:
            Once.reads += 1
            return iter(["a"])

        def __getitem__(self, key: str) -> Any:
            return 1

    assert freeze(Once()) == {"a": 1}
    assert Once.reads == 1
