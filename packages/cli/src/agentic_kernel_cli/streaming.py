"""Streaming: the answer of a running Task on stdout as it arrives, its states on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from rich.text import Text

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Event
from agentic_kernel_engine import events as host_events
from agentic_kernel_engine.plans import vocabulary

from . import waiting
from .doubts import Doubts, is_unknown
from .durations import Duration
from .origin import Tools
from .place import Place, Spoken, text_of
from .proposals import host_of, proposal
from .rendering import Paper, event_line, failure_text, plain, state_text, task_line, told
from .text import content, cut, label

if TYPE_CHECKING:
    from .application import Ways

_NEWS: Final[Mapping[str, str]] = {
    host_events.TASK_CLAIMED: "taken up",
    host_events.TASK_RESUMED: "resumed",
    host_events.TASK_RELEASED: "released",
    host_events.TASK_PAUSE_REQUESTED: "pause requested",
    host_events.TASK_PAUSE_WITHDRAWN: "pause withdrawn",
    host_events.RESULT_DROPPED: "a late result was dropped",
    host_events.RUN_ABANDONED: "the run does not stop",
}


_PLAIN: Final = ("requested", "interrupt")
"""Reasons for a pause that are not shown, because the last line says enough."""
_UNKNOWN: Final = "a run ended in this step, so it may have taken effect"
_NEWS_WIDTH: Final = 400
"""Maximum length of a line about a step, in characters."""


class Screen(Protocol):
    """The display of the Tasks of one command: an `Observer` with a beginning and an end."""

    def begin(self, tasks: Sequence[tuple[Task, Sequence[Event]]]) -> None:
        """Show the Tasks that are about to run, each with the text in its history."""
        ...

    def observe(self, task_id: str, event: Event) -> None:
        """Show an event."""
        ...

    def tell(self, news: str) -> None:
        """Show a line about the command itself."""
        ...

    def warn(self, news: str) -> None:
        """Show a line that asks a person to act; it is on stderr with ``--json`` too."""
        ...

    def end(self, tasks: Sequence[Task]) -> None:
        """Show the status of the Tasks, and the command that lets each of them go on."""
        ...

    def close(self) -> None:
        """Restore the terminal, also after an error."""
        ...


class JsonScreen:
    """Every event, and every final Task, as one JSON object per line.

    Args:
        on_closed: Called when stdout cannot be written any more.
    """

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed

    def begin(self, tasks: Sequence[tuple[Task, Sequence[Event]]]) -> None: ...

    def observe(self, task_id: str, event: Event) -> None:
        try:
            event_line(task_id, event)
        except OSError:
            self._on_closed()

    def tell(self, news: str) -> None: ...

    def warn(self, news: str) -> None:
        with suppress(OSError):
            sys.stderr.write(f"{news}\n")
            sys.stderr.flush()

    def end(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            task_line(task)

    def close(self) -> None: ...


@dataclass
class _Voice:
    """One Task on a screen that it may share with others."""

    prefix: str = ""
    said: int = 0
    held: str = ""
    """An unfinished line, held back because the screen is shared."""
    spoken: Spoken = field(default_factory=Spoken)
    doubts: Doubts = field(default_factory=Doubts)
    duration: Duration = field(default_factory=Duration)
    tools: Tools = field(default_factory=Tools)


class TextScreen:
    """The answer alone on stdout; states, progress and hints on stderr.

    With several Tasks every line begins with the Task's number.

    Args:
        place: The place for which hints propose commands.
        on_closed: Called when stdout cannot be written any more.
    """

    def __init__(self, place: Place | Ways, on_closed: Callable[[], None]) -> None:
        self._place = place
        self._on_closed = on_closed
        self._out = sys.stdout
        self._err = Paper(stderr=True, highlight=False)
        self._shared = self._out.isatty() and self._err.is_terminal
        self._status = (
            self._err.status("starting", spinner="dots") if self._err.is_terminal else None
        )
        self._voices: dict[str, _Voice] = {}
        self._midline = False
        self._closed = False

    def begin(self, tasks: Sequence[tuple[Task, Sequence[Event]]]) -> None:
        for number, (task, history) in enumerate(tasks, 1):
            voice = self._voices[task.id] = _Voice(f"[{number}] " if len(tasks) > 1 else "")
            for event in history:
                voice.spoken.take(event)
                voice.doubts.take(event)
                voice.duration.take(event)
                voice.tools.take(event)
            kept = text_of(history)
            if task.status is not TaskStatus.NOT_STARTED:
                title = label(task.summary or task.instructions, 120)
                self._news(task.id, f"task {label(task.id)}  {title}", 120)
            if kept:
                self._news(task.id, f"{len(kept)} characters kept:")
                self._say(task.id, kept)
        if self._status is not None and not self._midline:
            self._status.start()

    def observe(self, task_id: str, event: Event) -> None:
        voice = self._voice(task_id)
        voice.duration.take(event)
        voice.tools.take(event)
        self._say(task_id, voice.spoken.take(event))
        if event.type in _NEWS:
            detail = event.data.get("extra")
            self._news(
                task_id, _NEWS[event.type] + (f": {label(str(detail), 200)}" if detail else ""), 200
            )
        elif event.type == host_events.TASK_DISPATCHED:
            self._news(task_id, f"task {label(task_id)} is running")
        elif event.type == host_events.TASK_PAUSED and event.data.get("reason") not in _PLAIN:
            self._news(task_id, f"paused: {label(str(event.data.get('reason')))}")
        for news in _steps(event):
            self._news(task_id, news, _NEWS_WIDTH)
        for doubt in voice.doubts.take(event):
            self._line(Text(f"{voice.prefix}unknown outcome: {doubt.step}; {_UNKNOWN}", "bold"))
        if self._status is not None:
            said = sum(voice.said for voice in self._voices.values())
            self._status.update(f"{said} characters" if said else "running")

    def tell(self, news: str) -> None:
        self._line(Text(news, style="bold"))

    def warn(self, news: str) -> None:
        self.tell(news)

    def end(self, tasks: Sequence[Task]) -> None:
        self.close()
        for task in tasks:
            voice = self._voice(task.id)
            if task.status is TaskStatus.SUCCESS and not voice.said:
                self._say(task.id, plain(task.result))
            if voice.held:
                self._write(f"{voice.prefix}{voice.held}\n")
            if self._midline:
                self._write("\n")
            for awaited in waiting.lines(task):
                self._line(Text(f"{voice.prefix}waits for {awaited}"))
            line = Text(voice.prefix) + state_text(task.status)
            for fact in self._facts(task):
                line.append(f"  {fact}")
            self._line(line)

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _facts(self, task: Task) -> list[str]:
        facts = []
        if task.failure is not None:
            facts.append(label(failure_text(task.failure)))
        if isinstance(task.result, Mapping):
            usage = task.result.get("usage")
            if isinstance(usage, Mapping) and "output_tokens" in usage:
                facts.append(label(f"{usage['output_tokens']} tokens"))
            if task.result.get("finish_reason") == "length":
                facts.append("cut at the token limit")
        if task.ended_at is not None:
            ran = self._voice(task.id).duration.told(task.ended_at)
            facts += [] if ran is None else [f"ran {ran}"]
        tools = self._voice(task.id).tools
        way_on = proposal(self._place, task, tools)
        if way_on is not None:
            facts.append(f"go on with: {way_on}")
        host = host_of(self._place, task, tools)
        if way_on is None and host is not None:
            facts.append(f"goes on in {host}")
        return facts

    def _voice(self, task_id: str) -> _Voice:
        return self._voices.setdefault(task_id, _Voice())

    def _say(self, task_id: str, text: str) -> None:
        voice = self._voice(task_id)
        text = content(text)
        voice.said += len(text)
        if voice.prefix:
            *lines, voice.held = (voice.held + text).split("\n")
            text = "".join(f"{voice.prefix}{line}\n" for line in lines)
        self._write(text)

    def _write(self, text: str) -> None:
        if not text or self._closed:
            return
        if self._shared:
            self.close()
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            self._closed = True
            self._on_closed()
        self._midline = not text.endswith("\n")

    def _news(self, task_id: str, text: str, width: int | None = None) -> None:
        self._line(Text(self._voice(task_id).prefix + cut(text, width), style="dim"))

    def _line(self, line: Text) -> None:
        if self._midline and self._shared:
            self._write("\n")
        try:
            self._err.print(line, soft_wrap=True)
        except OSError:
            # The states are optional: if stderr is closed, drop them and let the Task go on.
            self._err.quiet = True


def _steps(event: Event) -> list[str]:
    """Lines about the plan and the results of a step of the Loop; an answer is shown elsewhere."""
    match event.type:
        case vocabulary.PLAN_MADE:
            actions = [action for action in event.data["actions"] if isinstance(action, Mapping)]
            return [
                f"> {waiting.said(action)}"
                for action in actions
                if action.get("type") != "final_answer"
            ]
        case vocabulary.STEP_OBSERVED:
            observed = [each for each in event.data["observations"] if isinstance(each, Mapping)]
            return [
                label(f"< {each['error']}: {each.get('message', '')}", _NEWS_WIDTH)
                if each.get("error")
                else f"< {told(each['output'], partial(label, width=_NEWS_WIDTH))}"
                for each in observed
                if (each.get("error") or "output" in each) and not is_unknown(each)
            ]
        case _:
            return []
