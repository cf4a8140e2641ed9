"""No regular expression of ours takes more than linear time, whatever text it meets."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import string
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PACKAGES = (
    "agentic_kernel",
    "agentic_kernel_engine",
    "agentic_kernel_file",
    "agentic_kernel_postgres",
    "agentic_kernel_local",
    "agentic_kernel_openai",
    "agentic_kernel_claude",
    "agentic_kernel_ollama",
    "agentic_kernel_gemini",
    "agentic_kernel_copilot",
    "agentic_kernel_otel",
    "agentic_kernel_server",
    "agentic_kernel_cli",
)
OPERATIONS = ("search", "match", "fullmatch", "findall", "finditer", "split", "sub")
MARKS = [
    *string.punctuation, *" \n\ta0é\x00", "\\\\", "a.", "a-", "a ", " a", "0.", '="', "':", "[:",
]  # fmt: skip
SHORT, LONG = 500, 4_000
QUICK = 0.003
"""Seconds of this process that a linear pattern never reaches on the longer text."""
STEEP = 3 * LONG / SHORT
"""Eight times the text takes a linear pattern 8 times as long, and a quadratic one 64 times."""


def modules() -> Iterator[ModuleType]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


def patterns(value: Any, depth: int = 2) -> Iterator[tuple[re.Pattern[Any], str | None]]:
    """The patterns in a module's value; with the operation, where only that was kept."""
    if hasattr(value, "cache_info") and not inspect.signature(value).parameters:
        value = value()  # one that is made when it is needed
    if isinstance(value, re.Pattern):
        yield value, None
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__, value.__name__
    elif depth and isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from patterns(each, depth - 1)


def found() -> dict[str, tuple[re.Pattern[Any], Sequence[str]]]:
    """Every pattern, with the operations that its module uses it for."""
    all_of_them: dict[str, tuple[re.Pattern[Any], Sequence[str]]] = {}
    for module in modules():
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            for number, (pattern, operation) in enumerate(patterns(value)):
                calls = re.findall(rf"\b{name}(?:\(\))?\.(\w+)\(", source)
                used = [operation] if operation else calls
                asked = sorted({each for each in used if each in OPERATIONS}) or ["search"]
                all_of_them[f"{module.__name__}.{name}[{number}]"] = pattern, asked
    return all_of_them


FOUND = found()


def call(pattern: re.Pattern[Any], operation: str) -> Callable[[Any], Any]:
    """One operation of the pattern on a whole text."""
    if operation == "sub":
        empty = b"" if isinstance(pattern.pattern, bytes) else ""
        return lambda text: pattern.sub(empty, text)
    if operation == "finditer":
        return lambda text: list(pattern.finditer(text))
    operate: Callable[[Any], Any] = getattr(pattern, operation)
    return operate


def spent(operation: Callable[[Any], Any], text: Any) -> float:
    """The processor time of one operation, in seconds; the least of two."""
    took = []
    for _ in range(2):
        before = time.process_time()
        operation(text)
        took.append(time.process_time() - before)
    return min(took)


def steep(operation: Callable[[Any], Any], mark: str, *, is_bytes: bool) -> bool:
    """Whether a text of such marks takes more than linear time, at its end or not."""
    for end in ("", "\x00"):
        texts = [mark * (size // len(mark)) + end for size in (SHORT, LONG)]
        given: list[Any] = [text.encode() for text in texts] if is_bytes else list(texts)
        took = spent(operation, given[1])
        if took > QUICK and took > STEEP * spent(operation, given[0]):
            return True
    return False


@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_pattern_takes_linear_time(name: str) -> None:
    pattern, operations = FOUND[name]
    slow = [
        f"{operation} of {mark!a}"
        for operation in operations
        for mark in MARKS
        if steep(call(pattern, operation), mark, is_bytes=isinstance(pattern.pattern, bytes))
    ]
    assert not slow, f"{pattern.pattern!a} takes more than linear time: {slow}"


@pytest.mark.parametrize("text", [r"\s*,", r"a+\x01", r"\\+x", r"\w+@\w+"])
def test_a_quadratic_pattern_is_caught(text: str) -> None:
    search = re.compile(text).search
    assert any(steep(search, mark, is_bytes=False) for mark in MARKS)
