"""Tools of every kind pass the tool contract."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agentic_kernel_conformance import ToolContract, ToolFeatures
from agentic_kernel_conformance.tool import Effects
from agentic_kernel_engine.seams import Tool, ToolContext, ToolError, tool


@dataclass
class Point:
    x: int
    y: int = 0


class Notes:
    """The results of a tool, by idempotency key."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}


class TestTypedFunction(ToolContract):
    """In a thread of the event loop's executor."""

    features = ToolFeatures(steady=True, fails=True)

    @pytest.fixture
    def tool(self) -> Tool:
        @tool(effect="none")
        def move(start: Point, steps: list[int], label: str | None = None) -> Point:
            """Move a point to the right.

            Args:
                start: Where it is.
                steps: How far, one after the other.
                label: What it is called.
            """
            if not steps:
                raise ToolError("there is no step to take")
            return Point(start.x + sum(steps), start.y)

        return move

    @pytest.fixture
    def arguments(self) -> list[dict[str, Any]]:
        return [
            {"start": {"x": 1, "y": 2}, "steps": [3], "label": "a"},
            {"start": {"x": -1}, "steps": [3, 4]},
        ]

    @pytest.fixture
    def failing(self) -> dict[str, Any]:
        return {"start": {"x": 1}, "steps": []}


class TestCoroutineFunction(ToolContract):
    """Writes once under each key, reports how far it is, and waits if it is told to."""

    features = ToolFeatures(observable=True, steady=True, fails=True, waits=True)

    @pytest.fixture
    def notes(self) -> Notes:
        return Notes()

    @pytest.fixture
    def tool(self, notes: Notes) -> Tool:
        @tool(effect="write", idempotent=True, scopes=["notes/write"], timeout=30)
        async def write(text: str, host: ToolContext) -> dict[str, int]:
            """Write a note."""
            host.progress({"of": len(text)})
            if text == "wait":
                await asyncio.Event().wait()
            if not text:
                raise ToolError("there is nothing to write")
            await asyncio.sleep(0)
            notes.written.setdefault(host.key, text)
            return {"length": len(text)}

        return write

    @pytest.fixture
    def arguments(self) -> list[dict[str, Any]]:
        return [{"text": "one"}, {"text": "other"}]

    @pytest.fixture
    def effects(self, notes: Notes) -> Effects:
        return lambda: len(notes.written)

    @pytest.fixture
    def failing(self) -> dict[str, Any]:
        return {"text": ""}

    @pytest.fixture
    def waiting(self) -> dict[str, Any]:
        return {"text": "wait"}


class TestRawSchema(ToolContract):
    """A counter, which is neither steady nor may it run beside another call."""

    features = ToolFeatures(observable=True)

    @pytest.fixture
    def counted(self) -> list[int]:
        return []

    @pytest.fixture
    def tool(self, counted: list[int]) -> Tool:
        async def count(arguments: Mapping[str, Any]) -> int:
            before = len(counted)
            await asyncio.sleep(0)
            counted.append(arguments["by"])
            assert len(counted) == before + 1, "another call came between"
            return sum(counted)

        return Tool(
            "count",
            count,
            input_schema={
                "type": "object",
                "properties": {"by": {"$ref": "#/$defs/step"}},
                "required": ["by"],
                "additionalProperties": False,
                "$defs": {"step": {"type": "integer", "minimum": 1}},
            },
            output_schema={"type": "integer"},
            concurrent=False,
        )

    @pytest.fixture
    def arguments(self) -> list[dict[str, Any]]:
        return [{"by": 1}, {"by": 2}]

    @pytest.fixture
    def effects(self, counted: list[int]) -> Effects:
        return lambda: len(counted)
