"""Faults: foreign exceptions are named, placed and logged once, however odd they are."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import faults, values
from agentic_kernel_engine.faults import Stray, contained, kind_of, place_of, report, text_of


class Raising(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Numbered(Exception):
    def __str__(self) -> Any:
        return 7


class Locked(Exception):
    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("locked")


class Text(str):
    def __getitem__(self, key: Any) -> str:
        raise ValueError("no part")

    def replace(self, *_: Any) -> str:
        raise ValueError("no other")

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise ValueError("no bytes")


class Odd(Exception):
    def __str__(self) -> str:
        return Text("odd")


ODD = {
    "raises": Raising(),
    "exits": Exiting(),
    "number": Numbered(),
    "locked": Locked("x"),
    "text of its own": Odd(),
    "long": ValueError("€" * 9_000_000),
    "surrogate": ValueError("\ud800"),
    "NUL": ValueError("a\0b"),
    "control": ValueError("a\x1b[2Jb"),
    "name": type("é" * 5_000, (Exception,), {})("x"),
    "none": ValueError(),
    "group": BaseExceptionGroup("g", [Raising(), SystemExit(1)]),
}


@pytest.mark.parametrize("fault", ODD.values(), ids=ODD)
def test_every_fault_has_a_name_and_a_text_that_may_be_stored(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    for text in (kind_of(fault), text_of(fault)):
        values.check(text)
        assert type(text) is str
        assert len(text) <= 20_000
    report(fault, "t", 1)
    (line,) = caplog.records
    shown = logging.Formatter("%(message)s").format(line)
    assert "task 't', step 1" in shown
    assert "\x1b" not in shown
    assert len(shown) < 50_000


def test_a_fault_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ValueError("here")

    try:
        broken()
    except ValueError as fault:
        report(fault, "task-1", 4, "the planner")
        report(fault, "task-1", 4)
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.getMessage() == "task 'task-1', step 4: the planner failed"
    assert line.exc_text is not None
    assert "in broken" in line.exc_text
    assert line.exc_info is not None


def test_the_place_is_the_users_frame_and_not_the_librarys() -> None:
    def users() -> Any:
        return json.loads("{")  # It raises in the standard library.

    with pytest.raises(ValueError, match="Expecting") as raised:
        users()
    place = place_of(raised.value)
    assert place["file"] == __file__
    assert place["line"] == users.__code__.co_firstlineno + 1


def test_the_place_of_a_fault_of_the_engine_itself_is_the_innermost_frame() -> None:
    with pytest.raises(InvalidValue) as raised:
        values.check({"a": object()})
    # The test called it; without the test's own frame only the engine's are left.
    assert raised.value.__traceback__ is not None
    raised.value.__traceback__ = raised.value.__traceback__.tb_next
    assert Path(place_of(raised.value)["file"]) == Path(values.__file__)


def test_the_place_in_a_group_is_that_of_its_first_fault() -> None:
    async def broken() -> None:
        raise ValueError

    async def all_of_it() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken())

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(all_of_it())
    place = {"file": __file__, "line": broken.__code__.co_firstlineno + 1}
    assert place_of(raised.value) == place


def test_a_fault_without_a_traceback_has_no_place() -> None:
    assert place_of(ValueError()) == {}


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, BaseException])
async def test_a_stray_fault_does_not_stop_the_event_loop(kind: type[BaseException]) -> None:
    async def stray() -> None:
        raise kind("x")

    task = asyncio.create_task(contained(stray()))
    with pytest.raises(Stray) as raised:
        await task
    assert type(faults.origin(raised.value)) is kind
    assert kind_of(raised.value) == kind.__name__
    assert text_of(raised.value) == "x"


async def test_a_cancellation_and_an_exception_pass() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def fails() -> None:
        raise ValueError("passes")

    task = asyncio.create_task(contained(waits()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ValueError, match="passes"):
        await contained(fails())


def test_what_a_fault_says_is_one_line_that_steers_no_terminal() -> None:
    assert faults.said(ValueError("a\nERROR: b\x1b[2J\u202e\ud800")) == (
        "a\\nERROR: b\\x1b[2J\\u202e\\ud800"
    )


@pytest.mark.parametrize("fault", ODD.values(), ids=ODD)
def test_a_fault_beside_a_task_is_logged_with_a_traceback_that_steers_no_terminal(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise fault from ValueError("\x1b[2J")
    except BaseException as raised:
        faults.log(logging.getLogger("acme"), raised, "the %s failed", "part")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (
        "acme", "ERROR", "the part failed",
    )  # fmt: skip
    assert record.exc_text is not None
    assert record.exc_text.replace("\n", "").isprintable()


def test_no_log_call_of_the_packages_has_the_text_of_a_fault_as_it_came() -> None:
    """`Logger.exception` writes it in the traceback, and a fault as an argument in the line."""
    files = [*Path(__file__).parents[3].glob("*/src/**/*.py")]
    assert len(files) > 100
    raw = [f"{file}:{line}" for file in files for line in raw_logs(file.read_text())]
    assert raw == []
    sample = "try: ...\nexcept Exception as e:\n _log.warning('%s', e)\n _log.exception('x')\n"
    assert list(raw_logs(sample)) == [3, 4]


def raw_logs(source: str) -> Iterator[int]:
    """The lines of log calls that write a fault without `said` or `log`."""
    tree = ast.parse(source)
    caught = {each.name for each in ast.walk(tree) if isinstance(each, ast.ExceptHandler)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if not isinstance(call.func.value, ast.Name) or call.func.value.id != "_log":
            continue
        named = {each.id for each in call.args if isinstance(each, ast.Name)}
        keywords = {each.arg for each in call.keywords} - {"extra"}  # Fields of a structured log.
        if call.func.attr == "exception" or keywords or named & caught:
            yield call.lineno
