"""Calls: carried out once, recorded, and shown; and shown again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal

from . import handles, large_values
from .causes import coded, shortened
from .drivers import DriverCall, Indeterminate, NoEffect
from .drivers.isolation import isolated
from .entries import Entries, written
from .errors import GuardError
from .firewall import Cut, Frame, FrameLimits, RawResult, ResponseMode
from .ids import new_id
from .large_values import TooLarge, off_the_loop
from .policy import Constraints
from .ports import Routes, Shows
from .readings import Readings
from .spec import CapabilitySpec, SafetyClass
from .stores import GuardStore, Kept, Seen

_ANSWERED: Final = "guard/answered_failed"
"""The code of a call that was carried out, and whose target answered that it failed."""


class NotShown(GuardError):
    """The call has run, and its result cannot be shown in the mode that was asked for."""

    def __init__(self, capability: str, mode: str, why: str = "") -> None:
        why = why or f"has no form of JSON and cannot be shown as {mode}; ask for a summary"
        super().__init__(
            "guard/not_shown", f"{capability[:200]} was carried out, but its result {why}"
        )


class ResultGone(GuardError):
    """The call was carried out before, and what may be seen now of its result is not kept."""

    def __init__(self, action: str) -> None:
        super().__init__(
            "guard/result_gone",
            f"the action {action} was carried out before; less of its result may be seen now, and "
            "the result is not kept any more; look at the target, or use a new key to call again",
        )


class Calls:
    """Carries calls out, and shows what may be seen of their results."""

    def __init__(
        self, router: Routes, firewall: Shows, store: GuardStore, entries: Entries,
        readings: Readings,
    ) -> None:  # fmt: skip
        self._router = router
        self._firewall = firewall
        self._store = store
        self._entries = entries
        self._readings = readings
        self._running: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Event] = {}

    @asynccontextmanager
    async def alone(self, action: str, timeout: float) -> AsyncIterator[None]:
        """Run the block while no other call of this action runs in this event loop.

        So the same call at once gets the recorded answer of the first, as it does later.

        Raises:
            Indeterminate: Another call of it still runs after this time.
        """
        await self.ended(action, timeout)
        here = asyncio.get_running_loop(), action
        mine = self._running[here] = asyncio.Event()
        try:
            yield
        finally:
            del self._running[here]
            mine.set()

    async def ended(self, action: str, timeout: float) -> None:
        """Wait until no call of this action runs in this event loop.

        Raises:
            Indeterminate: One still runs after this time.
        """
        here = asyncio.get_running_loop(), action
        if here not in self._running:
            return
        try:
            async with asyncio.timeout(timeout):
                while (running := self._running.get(here)) is not None:
                    await running.wait()
        except TimeoutError:
            raise Indeterminate(
                f"the action {action} still runs after {timeout:g} seconds; make the same call "
                "later to see its answer"
            ) from None

    async def run(
        self, call: DriverCall, spec: CapabilitySpec, who: Principal, shown: Constraints,
        mode: ResponseMode, said: dict[str, Any],
    ) -> Frame:  # fmt: skip
        """Carry a call out, record its end, and show its result.

        Args:
            said: The entry of its beginning, without the facts that only the beginning has.

        Raises:
            NoEffect, Indeterminate, NotShown: As of `Guard.invoke`.
            CancelledError: The caller was cancelled. The end is recorded if the driver said it.
        """
        ended = said | {"kind": "ended"}
        ends = asyncio.get_running_loop().time() + call.timeout
        found, cancelled = await isolated(
            lambda: self._router.run(call, spec.idempotent), call.timeout
        )
        if isinstance(found, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            raise found
        if cancelled is None:
            raw = await self._answer(found, call, spec, who, ended)
            return await self._shown(raw, call, spec, who, shown, mode, ended, ends)
        if not isinstance(found, asyncio.CancelledError):
            with suppress(Exception):  # The caller is told of the cancellation alone.
                raw = await self._answer(found, call, spec, who, ended)
                await self._shown(raw, call, spec, who, shown, mode, ended, ends)
        raise cancelled

    async def _answer(
        self, found: RawResult | BaseException, call: DriverCall, spec: CapabilitySpec,
        who: Principal, ended: dict[str, Any],
    ) -> RawResult:  # fmt: skip
        """The result, or an error whose end is recorded."""
        if isinstance(found, RawResult):
            return found
        if isinstance(found, NoEffect):
            found.code = coded(found.code)
            # A model reads the message, so it is a result like any other.
            found.message = shortened(self._entries.clean(found.message))
            seen = self._readings.heard(found.message, found.source or spec.name, call.task, who)
            await self._end(ended, "failed", found.code, _recording(found.code), seen=seen)
            raise found
        name = self._entries.clean(type(found).__name__)[:80]
        code = coded(found.code) if isinstance(found, Indeterminate) else name
        if spec.safety is SafetyClass.READ:
            await self._end(ended, "failed", code, _recording(code))
            raise NoEffect(f"{spec.name} failed: {code}", "guard/failed") from found
        await self._end(ended, "indeterminate", code, _recording())
        raise Indeterminate(
            f"{spec.name} failed ({code}) and may have had an effect; look at the target "
            f"before it is called again (action {call.key})"
        ) from found

    async def _shown(
        self, raw: RawResult, call: DriverCall, spec: CapabilitySpec, who: Principal,
        shown: Constraints, mode: ResponseMode, ended: dict[str, Any], ends: float,
    ) -> Frame:  # fmt: skip
        """The frame of a result, which is kept and recorded."""
        until = self._entries.now() + handles.LIVES * 1_000
        kept: Kept | None = None

        def made() -> tuple[Frame, str, Seen | None]:
            nonlocal kept
            limits = shown.as_json()
            kept = handles.kept(raw, who, spec.name, limits, until, call.task)
            handle = kept.handle if kept else None
            frame = self._firewall.frame(raw, mode=mode, constraints=shown, handle=handle)
            result = _recording(frame=frame.as_json(), shown=limits)
            return frame, result, self._readings.saw(frame, call.task, who)

        try:
            frame, result, seen = await off_the_loop(made, raw.value, ends)
        except Exception as error:
            # The call has run; only what it answered cannot be shown.
            code, why = getattr(error, "code", type(error).__name__), ""
            if isinstance(error, TooLarge):
                why = f"has over {large_values.MOST:,} characters; ask for a part of it"
            elif isinstance(error, TimeoutError):
                why = f"could not be shown within the {call.timeout:g} seconds of the call"
            await self._end(ended, "succeeded", code, _recording(code), kept)
            raise NotShown(spec.name, mode, why) from error
        await self._end(ended, "succeeded", _ANSWERED if raw.failed else "", result, kept, seen)
        return frame

    async def again(
        self, result: str | None, action: str, who: Principal, mode: ResponseMode,
        shown: Constraints,
    ) -> Frame:  # fmt: skip
        """The answer to an action that was carried out before, for what may be seen now."""
        known = _recorded(result, action)
        frame = _frame_of(known.frame or {})
        if known.shown is not None:
            before = Constraints.of_json(known.shown)
            if before.narrowed(shown) == before:
                return frame
            shown = before.narrowed(shown)
        try:
            stored = await handles.found(self._store, frame.handle, who, self._entries.now())
        except handles.HandleRefused as gone:
            raise ResultGone(action) from gone
        raw = RawResult(stored.value, stored.driver, stored.source, stored.failed)
        return await off_the_loop(
            lambda: self._firewall.frame(raw, mode=mode, constraints=shown, handle=frame.handle),
            raw.value,
        )

    async def part(
        self, stored: handles.Stored, handle: str, query: handles.Query, limits: FrameLimits,
        timeout: float,
    ) -> Frame:  # fmt: skip
        """A frame of a part of a kept result.

        Raises:
            InvalidValue: It filters by what is hidden.
            NotShown: It is not made in this time.
        """
        ends = asyncio.get_running_loop().time() + timeout
        for name, wanted in query.equals:
            # Filtering by what is not shown would tell its values one by one.
            if self._firewall.hides(name, limits) or self._firewall.redactor.value(wanted)[1]:
                shown_name = self._entries.clean(name)[:80]
                raise InvalidValue("query.equals", f"cannot filter by {shown_name!a}: hidden")
        equals, show = dict(query.equals), self._firewall

        def made() -> Frame:
            part = show.select(
                stored.value, fields=query.fields, equals=equals, offset=query.offset,
                limit=query.limit,
            )  # fmt: skip
            raw = RawResult(part, stored.driver, stored.source)
            return show.frame(raw, mode="table", constraints=limits, handle=handle)

        try:
            return await off_the_loop(made, stored.value, ends)
        except TimeoutError as error:
            why = f"could not be shown within {timeout:g} seconds; ask for fewer rows or fields"
            raise NotShown(stored.capability, "table", why) from error

    async def reshown(
        self, frame: Frame, action: str, task: str, who: Principal, spec: CapabilitySpec
    ) -> None:
        """Remember that a run, perhaps another one than before, sees a recorded frame."""
        entries, seen = self._entries, self._readings.saw(frame, task, who)
        if seen is not None:
            entry = self._entries.entry(
                new_id("y"), "repeated", self._entries.now(), who, spec, task=task
            )
            await entries.write({**entry, "of": action}, seen)

    async def _end(
        self, entry: dict[str, Any], outcome: str, code: str, result: str,
        kept: Kept | None = None, seen: Seen | None = None,
    ) -> None:  # fmt: skip
        entry = {**entry, "at": self._entries.now(), "outcome": outcome, "code": code}
        await self._store.finish(entry["action"], result, written(entry), kept, seen)


class _Result(msgspec.Struct):
    """The record of an action's end; without both fields the end is not known."""

    frame: dict[str, Any] | None = None
    error: str = ""
    shown: dict[str, Any] | None = None
    """The `Constraints` under which the frame was made."""


def _recording(
    error: str = "", frame: dict[str, Any] | None = None, shown: dict[str, Any] | None = None
) -> str:
    """A `_Result` as a store keeps it."""
    return msgspec.json.encode(_Result(frame, error, shown)).decode()


def _recorded(result: str | None, action: str) -> _Result:
    """The recorded answer of an action that was begun before.

    Raises:
        NoEffect: It failed.
        Indeterminate: Its end is not recorded.
    """
    found = _Result() if result is None else msgspec.json.decode(result, type=_Result)
    if found.frame is not None:
        return found
    if found.error:
        raise NoEffect(f"the action {action} was tried before and failed: {found.error}")
    raise Indeterminate(
        f"the action {action} was begun before and may have had an effect; look at the target"
    )


def _frame_of(data: Mapping[str, Any]) -> Frame:
    lists = {"rows": tuple(data["rows"]), "taint": tuple(data["taint"])}
    return Frame(**{**data, **lists, "cuts": tuple(Cut(**cut) for cut in data["cuts"])})
