"""Every walk over what comes from outside does work in proportion to it: counted, not timed.

What is counted are the lines of Python that run, whoever wrote them, and the calls of functions
in C. Work inside one such call is not seen; `test_linear_patterns.py` times that of patterns.
"""

from __future__ import annotations

import asyncio
import json
import string
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import freeze
from agentic_kernel_cli import text as shown
from agentic_kernel_engine import values
from agentic_kernel_engine.plans.transcript import Notice, UserMessage
from agentic_kernel_engine.providers.answers import Doubled, json_of
from agentic_kernel_engine.providers.secrets import secrets_of
from agentic_kernel_engine.seams.compactor import extract
from agentic_kernel_engine.seams.memories.hashing import HashingEmbedder
from agentic_kernel_engine.seams.memories.in_memory import InMemoryMemory
from agentic_kernel_engine.seams.memory import Item, Query, Scope
from agentic_kernel_engine.tools.schema import compile_schema
from agentic_kernel_engine.tools.signature import described, plain
from agentic_kernel_local.reading import ActionReader, action_in
from agentic_kernel_otel.redaction import Redaction

pytestmark = pytest.mark.torture

HALF, WHOLE = 20_000, 40_000
"""Characters."""
SHORT = 2_000
"""Characters that are scanned at once for secrets, at some hundred lines each."""
MARKS = [
    *string.punctuation,
    *" \n\ta0é\x01\u202e",
    '":',
    "a.",
    "a ",
    "\\\\",
    "sk-",
    "{}",
    "[]",
    "- ",
]
KEY = "sk-Ab3+/x=Q9&z%!_~0123456789"
SCHEMA = {
    "type": "object",
    "additionalProperties": {"type": "array", "items": {"type": "string", "maxLength": 3}},
}
FITS = compile_schema(SCHEMA)
SECRETS = secrets_of(KEY)


def counted(work: Callable[..., object], *given: Any) -> int:
    """Lines that run and functions in C that are called."""
    ran = 0

    def trace(_: Any, event: str, __: Any) -> Any:
        nonlocal ran
        ran += event == "line"
        return trace

    def profile(_: Any, event: str, __: Any) -> None:
        nonlocal ran
        ran += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        with suppress(InvalidValue, Doubled, ValueError, RecursionError):
            work(*given)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return ran


def pieced(reader: ActionReader, text: str) -> object:
    """A final answer that comes in pieces of a few characters."""
    form = json.dumps({"answer": text})
    for at in range(0, len(form), 3):
        reader.take(form[at : at + 3])
    return reader.end()


def recalled(text: str) -> Callable[[], object]:
    """A memory in which a third of the text is remembered, and asked for: more is refused."""
    scope, memory, part = Scope("someone"), InMemoryMemory(), text[: len(text) // 3]

    async def both() -> None:
        await memory.propose(Item("one", scope, "a note " + part))
        await memory.recall(Query(scope, part))

    return lambda: asyncio.run(both())


WALKS: dict[str, Callable[[str], Callable[[], object]]] = {
    "a stored text": lambda text: lambda: values.encode({"a": text}),
    "a stored list": lambda text: lambda: values.encode([*text]),
    "stored keys": lambda text: lambda: values.encode({f"{n}{c}": c for n, c in enumerate(text)}),
    "a frozen text": lambda text: lambda: freeze({"a": text}),
    "a frozen list": lambda text: lambda: freeze([[c] for c in text]),
    "what a tool returned": lambda text: lambda: plain([(c, {c: 1}) for c in text]),
    "what a model wrote": lambda text: lambda: json_of(text),
    "a model's string": lambda text: lambda: json_of(json.dumps({"a": text, "b": text})),
    "a model's list": lambda text: lambda: json_of(json.dumps([{c: c} for c in text])),
    "what a small model wrote": lambda text: lambda: action_in(json.dumps({"answer": text}), 0),
    "a small model's pieces": lambda text: lambda: pieced(ActionReader(), text),
    "a value under a schema": lambda text: lambda: FITS({"a": [*text]}),
    "keys under a schema": lambda text: lambda: FITS({f"{n}{c}": c for n, c in enumerate(text)}),
    "a text under a pattern": lambda text: lambda: compile_schema({"pattern": "(a|b)*$"})(text),
    "the words of a tool": lambda text: lambda: described(f"Does it.\n\nArgs:\n    a: {text}"),
    "an exported text": lambda text: lambda: Redaction().content(text),
    "an exported line": lambda text: lambda: Redaction().line(text),
    "a label on a terminal": lambda text: lambda: shown.label(text),
    "a line on a terminal": lambda text: lambda: shown.line(text),
    "an answer on a terminal": lambda text: lambda: shown.content(text),
    "a command on a terminal": lambda text: lambda: shown.command_line([text]),
    "a memory": recalled,
    "an embedding": lambda text: lambda: asyncio.run(HashingEmbedder().embed([text])),
    "a summary": lambda text: lambda: extract([UserMessage(text), Notice(text)], 4_000),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("walk", WALKS)
def test_a_text_of_one_mark_is_walked_in_proportion(walk: str) -> None:
    make = WALKS[walk]
    for mark in MARKS:
        texts = [mark * (size // len(mark)) for size in (HALF, WHOLE)]
        counted(make(texts[0][:10]))  # What is made once is made.
        half, whole = (counted(make(text)) for text in texts)
        assert whole <= 2.2 * half + 100, (mark, half, whole)


@pytest.mark.timeout(600)
def test_a_text_of_one_mark_is_searched_for_secrets_in_proportion() -> None:
    for mark in [*MARKS, KEY[:4], KEY[:-1], KEY]:
        texts = [mark * (size // len(mark)) for size in (SHORT, 2 * SHORT)]
        SECRETS.clean(texts[0])
        half, whole = (counted(SECRETS.clean, text) for text in texts)
        assert whole <= 2.2 * half + 100, (mark, half, whole)


PART = [1, 2, 3]
SHARED: dict[str, Callable[[int], Any]] = {
    "one part many times": lambda n: [["x" * 100] * 10] * n,
    "one dict many times": lambda n: [{"a": [1, {"b": 2}]}] * n,
    "one part under many keys": lambda n: dict.fromkeys(map(str, range(n)), PART),
}
"""By how often the part is held."""


def doubling(levels: int) -> Any:
    value: Any = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


def cycle(size: int) -> Any:
    value: list[Any] = list(range(size))
    value.append(value)
    return value


TAKEN: dict[str, Callable[[Any], object]] = {
    "stored": values.encode,
    "frozen": freeze,
    "returned by a tool": plain,
    "under a schema": FITS,
    "exported": lambda value: Redaction().content(value),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("taken", TAKEN)
def test_a_shared_part_is_walked_in_proportion(taken: str) -> None:
    take = TAKEN[taken]
    for name, make in SHARED.items():
        half, whole = (counted(take, make(size)) for size in (HALF, WHOLE))
        assert whole <= 2.2 * half + 100, (name, half, whole)
    # Twice the levels are twice the objects, and as text the square.
    half, whole = (counted(take, doubling(levels)) for levels in (50, 100))
    assert whole <= 2.2 * half + 2_000, (half, whole)
    half, whole = (counted(take, cycle(size)) for size in (HALF, WHOLE))
    assert whole <= 2.2 * half + 2_000, (half, whole)
