"""Planners, policies and tools, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from agentic_kernel_engine.loop import (
    ALLOW,
    Context,
    Decision,
    Delta,
    FinalAnswer,
    Plan,
    PlannerError,
    ToolCall,
    Usage,
    deny,
    require_approval,
)
from agentic_kernel_engine.plans.action import Action
from agentic_kernel_engine.plans.plan import PlanLike
from agentic_kernel_engine.seams import Tool, ToolContext, ToolError


class Answering:
    """Answers with the last text of the transcript, after a turn of the event loop."""

    worst = Usage(1_000_000, 10)

    async def plan(self, context: Context) -> PlanLike:
        await asyncio.sleep(0)
        return Plan((FinalAnswer(last(context)),), usage=Usage(len(context.transcript), 3))

    def worst_case(self, context: Context) -> Usage:
        return self.worst


def last(context: Context) -> str:
    return f"{len(context.transcript)} entries, {len(context.tools)} tools"


class VendorsError(Answering):
    """An error of the vendor's client passes through as it is."""

    async def plan(self, context: Context) -> PlanLike:
        if not context.tools:
            raise ConnectionError("400: `tools` must not be empty")
        return await super().plan(context)


class CodeWithoutScope(Answering):
    """A failure's code is the vendor's, without a scope."""

    async def plan(self, context: Context) -> PlanLike:
        if len(context.transcript) > 100:
            raise PlannerError("context_length_exceeded", "the prompt is too long")
        return await super().plan(context)


class SilentStream(Answering):
    """A stream ends without a plan when the model said nothing."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:  # type: ignore[override]
        text = "" if context.memories else last(context)
        for word in text.split():
            yield Delta(word)
        if text:
            yield FinalAnswer(text)


class TuplesInArguments(Answering):
    """Arguments hold what JSON has no form for of its own."""

    async def plan(self, context: Context) -> PlanLike:
        return [ToolCall("add", {"numbers": (1, 2)})]


class CallsFromMemory(Answering):
    """It calls a tool that it was shown once, and is not shown now."""

    async def plan(self, context: Context) -> PlanLike:
        return ToolCall("add", {"a": 1, "b": 2})


class SaysItAgain(Answering):
    """It goes on with an answer that was cut, and begins at the beginning."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:  # type: ignore[override]
        whole = f"{context.continuation}{last(context)}"
        yield Delta(whole)
        yield FinalAnswer(whole)


class SaysNoPlace(Answering):
    """It goes on with an answer that was cut, and its pieces replace the beginning."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:  # type: ignore[override]
        rest = last(context)
        yield Delta(rest)
        yield FinalAnswer(f"{context.continuation}{rest}")


class NeverTheSame(Answering):
    """A count of its own answers is in every answer."""

    count = 0

    async def plan(self, context: Context) -> PlanLike:
        self.count += 1
        return FinalAnswer(f"answer {self.count}")


class StrictSchemas(Answering):
    """It makes the tools' schemas what its vendor wants, in place."""

    async def plan(self, context: Context) -> PlanLike:
        for each in context.tools:
            each.input_schema["strict"] = True
        return await super().plan(context)


class TrimsTranscript(Answering):
    """It cuts a long transcript down to what fits its model, in place."""

    async def plan(self, context: Context) -> PlanLike:
        del context.transcript[20:]  # type: ignore[attr-defined]
        return await super().plan(context)


class OneContext(Answering):
    """It keeps the context that it works on, for one call at a time."""

    async def plan(self, context: Context) -> PlanLike:
        self.context = context
        await asyncio.sleep(0)
        return FinalAnswer(last(self.context))


class OneAnswer(Answering):
    """Every plan is the same object's arguments, which the next call fills anew."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}

    async def plan(self, context: Context) -> PlanLike:
        self.arguments["text"] = last(context)
        await asyncio.sleep(0)
        return ToolCall("write_note", self.arguments)


class CannotBeCancelled(Answering):
    """Whatever goes wrong in a call, a cancellation too, becomes an answer."""

    async def plan(self, context: Context) -> PlanLike:
        try:
            await asyncio.sleep(0)
            return await super().plan(context)
        except BaseException as error:
            return FinalAnswer(f"it did not work: {type(error).__name__}")


class PumpsOn(Answering):
    """A task reads from the model, and goes on when nobody reads from the stream."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:  # type: ignore[override]
        pieces: asyncio.Queue[str] = asyncio.Queue(1)

        async def pump() -> None:
            for word in (*last(context).split(), ""):
                await pieces.put(word)

        pumping = asyncio.create_task(pump())
        while word := await pieces.get():
            yield Delta(word)
        await pumping
        yield FinalAnswer(last(context))


class ForgetsReasoning(Answering):
    """Its worst case knows nothing of the tokens that are spent on reasoning."""

    async def plan(self, context: Context) -> PlanLike:
        return Plan((FinalAnswer(""),), usage=Usage(10, 300, reasoning_tokens=290))


class AddsUpTheTotals(Answering):
    """Each piece of its stream tells a sum of the vendor's counts, which are totals already."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:  # type: ignore[override]
        total = told = 0
        for word in last(context).split():
            total += 2
            told += total
            yield Delta(word, usage=Usage(10, told))
        yield Plan((FinalAnswer(last(context)),), usage=Usage(10, total))


class SubtractsTheCached(Answering):
    """The cached tokens are taken from the input once too often."""

    async def plan(self, context: Context) -> PlanLike:
        return Plan((FinalAnswer(""),), usage=Usage(10 - 20, 3, cached_tokens=20))


class Allowing:
    """Allows what it is asked about."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        await asyncio.sleep(0)
        return ALLOW


class ToolsOnly(Allowing):
    """It takes every action for a call of a tool."""

    async def authorize(self, action: Any, context: Context) -> Decision:
        return deny("not here") if action.tool.startswith("rm") else ALLOW


class KnownToolsOnly(Allowing):
    """It takes every tool for one that there is."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall):
            effects = {each.name: each.effect for each in context.tools}
            return ALLOW if effects[action.tool] == "none" else require_approval("it has an effect")
        return ALLOW


class SaysYes(Allowing):
    """It decides with a boolean."""

    async def authorize(self, action: Action, context: Context) -> Any:
        return not isinstance(action, ToolCall)


class OnceOnly(Allowing):
    """What it allowed it denies the second time."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def authorize(self, action: Action, context: Context) -> Decision:
        key = repr(action)
        if key in self.seen:
            return deny("that was done already")
        self.seen.add(key)
        return ALLOW


class HidesOnly(Allowing):
    """What the planner may not call it does not see; if it calls it all the same, it may."""

    def visible(self, tool: Tool, context: Context) -> bool:
        return tool.scopes <= context.principal.scopes


class VisibleScopes(Allowing):
    """It says which scopes a tool needs, and not whether it is visible."""

    def visible(self, tool: Tool, context: Context) -> Any:
        return tool.scopes & context.principal.scopes


class Redacts(Allowing):
    """It takes what is nobody's business out of the arguments, in place."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        if isinstance(action, ToolCall):
            action.arguments.pop("path", None)  # type: ignore[attr-defined]
        return ALLOW


class CountsInVariables(Allowing):
    """It counts its decisions in the variables of the run."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        context.variables["decisions"] = context.variables.get("decisions", 0) + 1
        return ALLOW


class OneQuestion(Allowing):
    """It keeps the question that it works on, for one decision at a time."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        self.action = action
        await asyncio.sleep(0)
        return ALLOW if isinstance(self.action, ToolCall) else deny("only tools")


class DeniesWhenCancelled(Allowing):
    """A review that is cancelled is a denial."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            return ALLOW
        except asyncio.CancelledError:
            return deny("the review was cancelled")


class AuditsLater(Allowing):
    """It writes its decision down in a task that nobody waits for."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        self.audit = asyncio.create_task(asyncio.Event().wait())
        return await super().authorize(action, context)


class NoteTool:
    """Writes notes, once under each key."""

    arguments: ClassVar[list[dict[str, Any]]] = [{"text": "a"}, {"text": "b"}]
    failing: ClassVar[dict[str, Any]] = {"text": "fail"}
    waiting: ClassVar[dict[str, Any]] = {"text": "wait"}
    declared: ClassVar[dict[str, Any]] = {"effect": "write", "idempotent": True}

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self.more = 0

    def tool(self) -> Tool:
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        output = {"type": "string"}
        return Tool("note", self.call, input_schema=text, output_schema=output, **self.declared)

    def effects(self) -> int:
        return len(self.notes) + self.more

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if arguments["text"] == "fail":
            raise ToolError("it is not to be written")
        if arguments["text"] == "wait":
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self.notes.setdefault(context.key, arguments["text"])
        return arguments["text"]


class TrustsThePlanner(NoteTool):
    """A validator of its own, that takes what it is given."""

    declared: ClassVar[dict[str, Any]] = {
        **NoteTool.declared,
        "validator": lambda schema: lambda value: None,
    }


class AnotherOutput(NoteTool):
    """What it returns is not what its output schema says."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return {"written": await super().call(arguments, context)}


class ErrorsAsText(NoteTool):
    """A failure is a result that begins with the word error."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        try:
            return await super().call(arguments, context)
        except ToolError as error:
            return f"Error: {error}"


class ReportsObjects(NoteTool):
    """It reports its progress with an object of its own."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        context.progress(self)
        return await super().call(arguments, context)


class ReadsWithATrace(NoteTool):
    """It says that it only reads, and writes down who has read."""

    declared: ClassVar[dict[str, Any]] = {"effect": "read"}


class IgnoresTheKey(NoteTool):
    """It says that it may be called again, and never looks at the key."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.more += 1
        return await super().call(arguments, context)


class KeepsItsArguments(NoteTool):
    """It keeps what it works on, for one call at a time."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.text = arguments["text"]
        await super().call(arguments, context)
        return self.text


class CatchesEverything(NoteTool):
    """Whatever happens, a cancellation too, it has something to say."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        try:
            return await super().call(arguments, context)
        except asyncio.CancelledError:
            return "it was interrupted"


class LeavesAWorker(NoteTool):
    """What it began goes on behind it."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        self.worker = asyncio.create_task(asyncio.Event().wait())
        return await super().call(arguments, context)


class SharesTheContext(Answering):
    """Its arguments are the variables of the run themselves."""

    async def plan(self, context: Context) -> PlanLike:
        return ToolCall("add", context.variables)


class StaleTools(Answering):
    """It keeps the tools that it was shown first."""

    known: tuple[str, ...] = ()

    async def plan(self, context: Context) -> PlanLike:
        self.known = self.known or tuple(each.name for each in context.tools)
        return ToolCall(self.known[0], {"a": 1, "b": 2}) if self.known else FinalAnswer("42")


class TellsOtherText(Answering):
    """The last piece is not in the text of the plan."""

    async def plan(self, context: Context) -> AsyncIterator[Delta | PlanLike]:  # type: ignore[override]
        yield Delta("It is ")
        yield Delta("42.")
        yield Plan((FinalAnswer(42),), text="It is ")


class OnceKnown(Allowing):
    """What it decided about a tool is kept by the tool's name, whoever asks."""

    def __init__(self) -> None:
        self.known: dict[str, Decision] = {}

    async def authorize(self, action: Action, context: Context) -> Decision:
        if not isinstance(action, ToolCall):
            return ALLOW
        allowed = any(
            each.name == action.tool and each.scopes <= context.principal.scopes
            for each in context.tools
        )
        return self.known.setdefault(action.tool, ALLOW if allowed else deny("not you"))


class HidesFromSome(Allowing):
    """A hidden tool is refused, unless the call has an argument."""

    async def authorize(self, action: Action, context: Context) -> Decision:
        return deny("hidden") if isinstance(action, ToolCall) and not action.arguments else ALLOW

    def visible(self, tool: Tool, context: Context) -> bool:
        return tool.scopes <= context.principal.scopes


class LooksThenWrites(NoteTool):
    """It looks for the key, waits, and then writes."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[str] = set()

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        known = context.key in self.keys
        await asyncio.sleep(0)
        self.keys.add(context.key)
        if not known:
            self.more += 1
        return await super().call(arguments, context)


class RemembersTooLate(NoteTool):
    """It writes, waits for an answer, and only then keeps the key."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[str] = set()
        self.one = asyncio.Lock()

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        async with self.one:
            if context.key not in self.keys:
                self.more += 1
                await asyncio.sleep(0)
                self.keys.add(context.key)
        return await super().call(arguments, context)
