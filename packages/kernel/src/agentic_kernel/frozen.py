"""Immutable JSON-like values: a Task's values can be shared without a copy.

A value is frozen once, when it enters the kernel. Mappings become `FrozenDict`, lists and tuples
become `FrozenList`; strings, numbers, booleans and ``None`` stay as they are; every other type
is refused. The walk uses no recursion, so memory alone bounds the nesting depth. A part that occurs
many times is frozen once. A container that makes its items on the fly (a range, a class of the
caller's) may be endless, so the walk reads a bounded number of such items.
"""

from __future__ import annotations

from collections import UserString
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from .errors import InvalidValue
from .errors import shown as shown

_SCALARS = frozenset({type(None), bool, int, float, str})
_TEXT_LIKE = (str, bytes, bytearray, memoryview, UserString)
_IN_MEMORY = frozenset({dict, list, tuple})
MAX_GENERATED = 100_000
"""The most items that one `freeze` reads from containers other than plain dicts, lists, tuples."""


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__} is immutable; build a new value with dict(...) or list(...)"
    )


class FrozenDict(dict[str, Any]):
    """A dict that cannot change, to any depth.

    It equals a plain dict with the same items; `copy.copy`, `copy.deepcopy`, `pickle` and
    `json.dumps` work on it. ``dict(value)`` gives a mutable shallow copy.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> FrozenDict:
        frozen = freeze(dict(*args, **kwargs))
        assert isinstance(frozen, FrozenDict)
        return frozen

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class FrozenList(list[Any]):
    """A list that cannot change, to any depth.

    It equals a plain list with the same items; `copy.copy`, `copy.deepcopy`, `pickle` and
    `json.dumps` work on it. ``list(value)`` gives a mutable shallow copy.
    """

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> FrozenList:
        frozen = freeze(list(items))
        assert isinstance(frozen, FrozenList)
        return frozen

    def __init__(self, *_: Any) -> None:
        pass

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse


EMPTY_DICT: FrozenDict = dict.__new__(FrozenDict)
EMPTY_LIST: FrozenList = list.__new__(FrozenList)


class _Frame:
    """One open container of the walk: its source, its next items, and the values built so far."""

    __slots__ = ("items", "key", "keys", "source", "values")

    def __init__(self, source: Mapping[Any, Any] | Sequence[Any], left: list[int]) -> None:
        self.source = source
        self.values: list[Any] = []
        self.keys: list[str] | None = [] if isinstance(source, Mapping) else None
        self.items: Iterator[Any] = iter(source.items() if isinstance(source, Mapping) else source)
        if type(source) not in _IN_MEMORY:
            self.items = _counted(self.items, left)
        self.key: Any = None

    def step(self) -> str:
        """Return the part of the path that leads to the current item."""
        return f"[{len(self.values)}]" if self.keys is None else f"[{shown(self.key)}]"

    def build(self) -> Any:
        if self.keys is None:
            built_list = list.__new__(FrozenList)
            list.extend(built_list, self.values)
            return built_list
        built_dict = dict.__new__(FrozenDict)
        dict.update(built_dict, zip(self.keys, self.values, strict=True))
        return built_dict


class _TooMany(Exception):
    """The containers that make their items on the fly yielded more than `MAX_GENERATED`."""


def _counted(items: Iterator[Any], left: list[int]) -> Iterator[Any]:
    """Yield the same items; ``left`` counts down what all such containers may still yield."""
    for item in items:
        left[0] -= 1
        if left[0] < 0:
            raise _TooMany
        yield item


def freeze(value: Any, path: str = "value", deepest: int | None = None) -> Any:
    """Return the immutable equal of a JSON-like value; a frozen value is returned unchanged.

    Args:
        value: ``None``, a bool, a number, a string, or mappings and sequences of those.
        path: The name of the value in an error.
        deepest: The maximal number of nested containers; None for no limit.

    Raises:
        InvalidValue: A part cannot be frozen (a set, an object, a key that is not a string, a
            value that contains itself, a container that cannot be read or does not end), or the
            value nests deeper than ``deepest``; the error names the path.
    """
    kind = type(value)
    if kind in _SCALARS or kind is FrozenDict or kind is FrozenList:
        return value
    if kind is dict and _flat(value):
        flat = dict.__new__(FrozenDict)
        dict.update(flat, value)
        return flat
    stack: list[_Frame] = []
    open_ids: set[int] = set()
    done: dict[int, tuple[Any, Any]] = {}  # the source is kept, so that its id is not reused
    left = [MAX_GENERATED]
    current = value
    while True:
        kind = type(current)
        if kind in _SCALARS or kind is FrozenDict or kind is FrozenList:
            built = current
        elif id(current) in done:
            built = done[id(current)][1]
        elif isinstance(current, (Mapping, Sequence)) and not isinstance(current, _TEXT_LIKE):
            if id(current) in open_ids:
                raise InvalidValue(_path(path, stack), "contains itself; break the cycle")
            if deepest is not None and len(stack) >= deepest:
                raise InvalidValue(_path(path, stack), f"is nested deeper than {deepest} levels")
            try:
                frame = _Frame(current, left)
            except Exception as error:
                raise _unreadable(error, path, stack) from error
            open_ids.add(id(current))
            stack.append(frame)
            built = _PENDING
        else:
            built = _scalar(current, path, stack)
        while True:
            if not stack:
                return built
            frame = stack[-1]
            if built is not _PENDING:
                frame.values.append(built)
            try:
                item = next(frame.items)
            except StopIteration:
                stack.pop()
                open_ids.discard(id(frame.source))
                built = frame.build()
                done[id(frame.source)] = frame.source, built
                continue
            except Exception as error:
                raise _unreadable(error, path, stack) from error
            if frame.keys is not None:
                if type(item) is not tuple or len(item) != 2:
                    raise InvalidValue(
                        _path(path, stack[:-1]), "yields items that are not pairs of key and value"
                    )
                key, item = item
                frame.key = key
                if type(key) is not str:
                    if not isinstance(key, str):
                        raise InvalidValue(
                            _path(path, stack),
                            f"has a key of type {type(key).__name__}; keys must be strings",
                        )
                    key = str.__str__(key)
                frame.keys.append(key)
            current = item
            break


def _flat(items: dict[str, Any]) -> bool:
    """True if every key is a plain string and every item is frozen; most notes are like this."""
    for key, item in items.items():
        if type(key) is not str or type(item) not in _FROZEN:
            return False
    return True


_FROZEN = frozenset({*_SCALARS, FrozenDict, FrozenList})
"""The types of values that stay as they are."""
_PENDING: Any = object()


def _scalar(value: Any, path: str, stack: list[_Frame]) -> Any:
    """Return the plain value of a scalar's subclass (of an enum member, for example)."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise InvalidValue(
        _path(path, stack),
        f"is a {type(value).__name__}, which cannot be frozen; use null, booleans, numbers, "
        "strings, lists and dicts with string keys",
    )


def _unreadable(error: Exception, path: str, stack: list[_Frame]) -> InvalidValue:
    if isinstance(error, _TooMany):
        return InvalidValue(
            _path(path, stack[:-1]),
            f"yields over {MAX_GENERATED:,} items; copy the wanted items into a list or a dict",
        )
    return InvalidValue(
        _path(path, stack), f"cannot be read, because of a {type(error).__name__}; pass plain "
        "lists and dicts"
    )  # fmt: skip


def _path(root: str, stack: list[_Frame]) -> str:
    steps = [frame.step() for frame in stack]
    if len(steps) > 12:
        steps = [*steps[:6], f"…({len(steps) - 9} more)…", *steps[-3:]]
    return root + "".join(steps)


def same(one: Any, other: Any) -> bool:
    """True if two frozen values are equal, with equal types throughout: ``1`` is not ``True``.

    Like `freeze`, it uses no recursion.
    """
    pairs = [(one, other)]
    compared: set[tuple[int, int]] = set()  # shared parts meet many times
    while pairs:
        left, right = pairs.pop()
        if left is right or (id(left), id(right)) in compared:
            continue
        compared.add((id(left), id(right)))
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs.extend((left[key], right[key]) for key in left)
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True
