"""A tool that keeps notes, and ten mistakes in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, ClassVar

from agentic_kernel_engine.seams import Tool, ToolContext, ToolError

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "tag": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["number", "text"],
}


def notebook(tool: Tool) -> Any:
    """The notebook behind a tool, for a test that looks at it."""
    return tool.handler.book  # type: ignore[attr-defined]


class HealthyNote:
    """Keeps a note once for each key, for the principal of the call."""

    DECLARED: ClassVar[dict[str, Any]] = {"effect": "write", "idempotent": True, "timeout": 5.0}

    def __init__(self) -> None:
        self.book: dict[tuple[str, str], dict[str, str]] = {}

    def owner(self, context: ToolContext) -> tuple[str, str]:
        return (context.principal.tenant, context.principal.name)

    def key(self, text: str, context: ToolContext) -> str:
        return context.key

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        text = f"{arguments.get('tag', '')} {arguments['text']}".strip()
        if len(text) > 100_000:
            raise ToolError("the note is too long; use at most 100000 characters")
        notes = self.book.setdefault(self.owner(context), {})
        key = self.key(text, context)
        notes.setdefault(key, text)
        await asyncio.sleep(0)
        return {"number": list(notes).index(key) + 1, "text": notes[key]}


def tool_of(kind: type[HealthyNote]) -> Callable[[], Tool]:
    def factory() -> Tool:
        book = kind()

        async def note(arguments: dict[str, Any], context: ToolContext) -> Any:
            return await book.handle(arguments, context)

        def plain(arguments: dict[str, Any], context: ToolContext) -> Any:
            return book.handle(arguments, context)

        handler: Any = plain if kind.DECLARED.get("inline") else note
        handler.book = book
        return Tool(
            "note",
            handler,
            input_schema=SCHEMA,
            description="Keep a note.",
            output_schema=RESULT,
            **kind.DECLARED,
        )

    factory.__name__ = kind.__name__
    factory.__doc__ = kind.__doc__
    return factory


class Again(HealthyNote):
    """Keeps the note once more for the same key while it declares `idempotent=True`."""

    def key(self, text: str, context: ToolContext) -> str:
        count = sum(len(notes) for notes in self.book.values())
        return f"{context.key}/{count}"


class SaysItReads(HealthyNote):
    """Declares `effect="read"` although it writes."""

    DECLARED: ClassVar[dict[str, Any]] = {"effect": "read", "timeout": 5.0}

    def key(self, text: str, context: ToolContext) -> str:
        return f"{context.key}/{sum(map(len, self.book.values()))}"


class InlineAndSlow(HealthyNote):
    """Waits for its disk on the event loop."""

    DECLARED: ClassVar[dict[str, Any]] = {**HealthyNote.DECLARED, "inline": True}

    def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        time.sleep(0.3)  # fsync
        text = f"{arguments.get('tag', '')} {arguments['text']}".strip()
        notes = self.book.setdefault(self.owner(context), {})
        notes.setdefault(context.key, text)
        return {"number": list(notes).index(context.key) + 1, "text": notes[context.key]}


class FinishesFirst(HealthyNote):
    """Takes a cancellation for a slow disk and tries again."""

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        for _ in range(5):
            try:
                await asyncio.sleep(0.02 if len(arguments["text"]) < 100 else 1.0)
                break
            except BaseException:
                continue
        return await super().handle(arguments, context)


class NothingForNothing(HealthyNote):
    """Returns None for an empty note."""

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        if not arguments["text"].strip():
            return None
        return await super().handle(arguments, context)


class RawError(HealthyNote):
    """Raises ValueError for a note that is too long."""

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            return await super().handle(arguments, context)
        except ToolError as error:
            raise ValueError(str(error)) from None


class OneBookForAll(HealthyNote):
    """Keeps the notes by the principal's name without the tenant."""

    def owner(self, context: ToolContext) -> tuple[str, str]:
        return ("", context.principal.name)


class ByText(HealthyNote):
    """Takes the same text for the same request, so a second note with equal words is lost."""

    def key(self, text: str, context: ToolContext) -> str:
        return text.casefold()


class ReadsThenWrites(HealthyNote):
    """Reads its book, waits, and writes it back, so calls of one batch lose notes."""

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        text = f"{arguments.get('tag', '')} {arguments['text']}".strip()
        notes = dict(self.book.get(self.owner(context), {}))
        notes.setdefault(context.key, text)
        await asyncio.sleep(0.01)  # the disk
        self.book[self.owner(context)] = notes
        return {"number": list(notes).index(context.key) + 1, "text": notes[context.key]}


class WholeBook(HealthyNote):
    """Returns the whole book with each note and nothing bounds its length."""

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        result = await super().handle(arguments, context)
        return {**result, "book": list(self.book[self.owner(context)].values())}


FAULTS = {
    "Again": "effects",
    "SaysItReads": "effects",
    "InlineAndSlow": "held",
    "FinishesFirst": "unwind",
    "NothingForNothing": "schemas",
    "RawError": "outcome",
    "OneBookForAll": "apart",
    "ByText": "effects",
    "ReadsThenWrites": "effects",
    "WholeBook": "schemas",
}
"""The rule that each of them breaks."""
