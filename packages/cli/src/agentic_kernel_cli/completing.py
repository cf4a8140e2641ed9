"""Completing: the words that may stand at the cursor, for the scripts of `shells`.

Nothing runs and nothing is written: the app of `--app` is not imported, and no folder is made. A
person pastes and runs what a shell completes, and everybody who can write to the store can choose
an id. So an id is offered only if every shell reads it as one plain word.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from .naming import LAST, MIN_PART
from .text import label

if TYPE_CHECKING:
    from agentic_kernel import Task
    from agentic_kernel_engine import Host

    from .place import Place

PATIENCE: Final = 2.0
"""Seconds after which a shell gets no words, such as from a database that does not answer."""
MOST: Final = 100
"""The most ids that are offered, the newest first."""
FAR: Final = 1_000
"""The most Tasks that are looked at for ids."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.@%+,/:][A-Za-z0-9_.@%+,/:=-]*", re.ASCII)
"""A word in which no shell finds a quote, a variable, a pattern or a command."""
_REMARK: Final = 60
_ACTIVE: Final = ("running", "paused")
_ENDED: Final = ("success", "failure", "cancelled")
_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "show": (), "watch": ("running",), "pause": ("running",), "resume": ("paused",),
    "kill": _ACTIVE, "approve": ("paused",), "deny": ("paused",), "answer": ("paused",),
    "retune": _ACTIVE, "recover": ("running",), "rerun": _ENDED, "list": (), "run": _ENDED,
}  # fmt: skip
"""The verbs that take the id of a Task, and the statuses that it may have; every one if empty."""
_FILES: Final = ("FILE", "PATH")
_FOLDERS: Final = ("DIR", "FOLDER", "PLACE")


@dataclass
class Line:
    """A command line up to the cursor."""

    part: str
    """The beginning of the word at the cursor."""
    command: Any
    """The command or group that the words before name."""
    verbs: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    """The options before the cursor that have a value, by the names of their parameters."""
    flags: set[str] = field(default_factory=set)
    """The names of all parameters that were given as options."""
    wants: Any = None
    """The option whose value stands at the cursor; None if another word does."""
    plain: bool = False
    """True after ``--``: no word is an option."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options that may stand here, by all their names."""


@dataclass
class Offer:
    """The words that may stand at the cursor."""

    words: list[tuple[str, str]] = field(default_factory=list)
    """Words, each with a remark."""
    kind: Literal["words", "files", "folders", "ends"] = "words"
    """``ends`` if the words end with the word at the cursor, and each is to replace it."""


def complete(shell: str, words: Sequence[str]) -> None:
    """Print what may stand at the cursor; on any error nothing.

    Args:
        shell: The shell that asks.
        words: The words after the name of the command; the last one may be incomplete.
    """

    def leave(*_: object) -> None:
        os._exit(0)

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        lines = answer(shell, words)
    except Exception:
        return
    sys.stdout.write("\n".join(lines) + "\n")


def answer(shell: str, words: Sequence[str]) -> list[str]:
    """The lines that a script of `shells` reads; the arguments are those of `complete`."""
    # bash splits words at = and :, and it replaces the last of the parts alone.
    told, cut = _joined(words) if shell == "bash" else (list(words), 0)
    offer = offered(told)
    lines: list[str] = [offer.kind]
    for word, remark in offer.words:
        if word[:cut] == told[-1][:cut]:  # Else a part that does not fit would stay in the line.
            lines.append(f"{word[cut:]}\t{remark}" if remark else word[cut:])
    return lines


def offered(words: Sequence[str]) -> Offer:
    """The words that may stand in the place of the last of these words."""
    line = _read(words or [""])
    name, mark, value = line.part.partition("=")
    if line.wants is not None:
        return _fitting(_values(line, line.wants, line.part), line.part)
    if not line.plain and mark and name in line.options:
        offer = _values(line, line.options[name], value)
        found = _fitting(offer, value)
        return Offer([(f"{name}={word}", remark) for word, remark in found.words], found.kind)
    if not line.plain and line.part.startswith("-"):
        return _fitting(Offer(list(_option_names(line))), line.part)
    if hasattr(line.command, "commands"):
        return _fitting(Offer(list(_verbs(line.command, line.part))), line.part)
    wanted = [each for each in line.command.params if each.param_type_name == "argument"]
    # With --last there is no ID, so the next argument is the one after it.
    place = len(line.arguments) + ("last" in line.flags)
    if place < len(wanted) or (wanted and wanted[-1].nargs == -1):
        return _fitting(_values(line, wanted[min(place, len(wanted) - 1)], line.part), line.part)
    return Offer() if line.plain else _fitting(Offer(list(_option_names(line))), line.part)


def _read(words: Sequence[str]) -> Line:
    from typer.main import get_command

    from .commands import app

    root = get_command(app)
    everywhere = _options(root)
    line = Line(words[-1], root, options=everywhere)
    for word in words[:-1]:
        name, mark, value = word.partition("=")
        if line.wants is not None:
            line.given[line.wants.name], line.wants = word, None
        elif word == "--" and not line.plain:
            line.plain = True
        elif word.startswith("-") and len(word) > 1 and not line.plain:
            option = line.options.get(name)
            if option is None:
                continue
            line.flags.add(option.name)
            if mark:
                line.given[option.name] = value
            elif not option.is_flag:
                line.wants = option
        elif hasattr(line.command, "commands"):
            line.command = line.command.commands[word]
            line.verbs.append(word)
            line.options = everywhere | _options(line.command)
        else:
            line.arguments.append(word)
    return line


def _options(command: Any) -> dict[str, Any]:
    return {
        name: each
        for each in command.params
        if each.param_type_name == "option"
        for name in each.opts
    }


def _option_names(line: Line) -> Iterator[tuple[str, str]]:
    """The long names of the options that were not given yet; those of the verb come first."""
    own = {id(each) for each in line.command.params}
    there = sorted(line.options.items(), key=lambda item: id(item[1]) not in own)
    for name, option in there:
        if name.startswith("--") and (option.multiple or option.name not in line.flags):
            yield name, _remark(option.help or "")
    yield "--help", "Show this message and exit."


def _verbs(group: Any, part: str) -> Iterator[tuple[str, str]]:
    """The verbs of a group with their help, each loaded only if it fits."""
    for verb in group.commands:
        if verb.startswith(part):
            # The help of every verb at once would load every verb.
            yield verb, _remark(group.commands[verb].get_short_help_str(_REMARK)) if part else ""


def _values(line: Line, parameter: Any, part: str) -> Offer:
    """The values of an option or argument."""
    kind = (parameter.metavar or "").strip("[].")
    found = parameter.type_descriptor.annotation
    if get_origin(found) is Literal:
        return Offer([(value, "") for value in get_args(found)])
    if parameter.name == "runtime" or kind == "KIND":
        from .kinds import names

        return Offer([(name, "") for name in names()])
    if parameter.name == "observer":
        from agentic_kernel_engine.discovery import OBSERVERS
        from agentic_kernel_engine.discovery import found as found_in

        return Offer([(name, "") for name in sorted(found_in(OBSERVERS))])
    if parameter.name == "api":
        return Offer([("responses", ""), ("chat", "")])
    if parameter.name == "scope":
        return Offer([(each, "") for each in ("client", "agent", "runner", "approver", "admin")])
    if parameter.name == "tools" and kind == "NAMES":
        from .toolbox import NAMES

        head = part[: part.rfind(",") + 1]
        return Offer([(head + name, "") for name in NAMES if name not in head.split(",")])
    if parameter.name == "model":
        return Offer(kind="files" if line.given.get("runtime", "local") == "local" else "words")
    task = _TASKS.get(line.verbs[0]) if len(line.verbs) == 1 else None
    if task is not None and (kind == "ID" and parameter.name != "task_id"):
        ids = _asked(line, lambda host: _ids(host, task, part))
        return Offer(ids, "words" if all(word.startswith(part) for word, _ in ids) else "ends")
    if task is not None and kind in ("DIGEST", "D") and (line.arguments or "last" in line.flags):
        named = LAST if "last" in line.flags else line.arguments[0]
        return Offer(_asked(line, lambda host: _digests(host, named)))
    if kind in _FILES:
        return Offer(kind="files")
    return Offer(kind="folders" if kind in _FOLDERS else "words")


def _fitting(offer: Offer, part: str) -> Offer:
    """The words that begin or end so, and that every shell reads as one plain word."""
    fits = str.endswith if offer.kind == "ends" else str.startswith
    words = [
        (word, remark)
        for word, remark in offer.words
        if fits(word, part) and (word.startswith("--") or _PLAIN.fullmatch(word))
    ]
    return Offer(words, offer.kind)


def _asked(line: Line, look: Any) -> list[tuple[str, str]]:
    """Return the result of ``look`` in the store of this command line."""
    import asyncio

    place = _place(line)
    if place is None:
        return []

    async def looking() -> list[tuple[str, str]]:
        from agentic_kernel_engine import Host

        async with place.opened() as store:
            host = Host(store=store)
            try:
                found: list[tuple[str, str]] = await look(host)
                return found
            finally:
                await host.close()

    return asyncio.run(looking())


def _place(line: Line) -> Place | None:
    """The place of the Tasks; None if it would have to be made, or if the app chooses it."""
    from .invocation import Invocation
    from .naming import STATE_VARIABLE
    from .place import Folder

    state = line.given.get("state", os.environ.get(STATE_VARIABLE))
    if state is not None:  # The shell has not expanded it yet.
        state = os.path.expandvars(state)
        state = str(Path(state).expanduser()) if state.startswith("~") else state
    called = Invocation.of(state, line.given.get("app"), (), as_json=False)
    if called.app is not None and state is None and called.settings.state is None:
        return None
    if isinstance(called.place, Folder) and not called.place.path.is_dir():
        return None
    return called.place


async def _ids(host: Host, statuses: Sequence[str], part: str) -> list[tuple[str, str]]:
    """The ids that begin with the part; if there are none, those that end with it.

    An end has at least `MIN_PART` characters, as the verbs require. A shorter one could turn a
    mistyped beginning into the id of another Task.
    """
    begin: list[tuple[str, str]] = []
    end: list[tuple[str, str]] = []
    for record in await host.store.find(newest=True, limit=FAR):
        task = record.task
        if statuses and task.status.value not in statuses:
            continue
        if task.id.startswith(part):
            begin.append((task.id, _told(task)))
            if len(begin) == MOST:
                break
        elif len(part) >= MIN_PART and task.id.endswith(part):
            end.append((task.id, _told(task)))
    return begin or end[:MOST]


async def _digests(host: Host, given: str) -> list[tuple[str, str]]:
    from . import waiting
    from .place import find_task

    task = (await find_task(host, given)).task
    return [(each.digest, _remark(str(each))) for each in waiting.requests(task)]


def _told(task: Task) -> str:
    return _remark(f"{task.status.value}: {task.summary or task.instructions}")


def _remark(text: str) -> str:
    return label(" ".join(text.split()), _REMARK)


def _joined(words: Sequence[str]) -> tuple[list[str], int]:
    """Words as bash splits them, put together and without their quotes.

    Returns:
        The words; and how much of the last one stands before the part that bash replaces.
    """
    found: list[str] = []
    glue, cut = False, 0
    for word in words:
        if word and not word.strip("=:") and found:
            cut = len(found[-1]) + len(word)
            found[-1] += word
            glue = True
            continue
        if glue:
            cut = len(found[-1])
            found[-1] += _unquoted(word)
        else:
            cut = 0
            found.append(_unquoted(word))
        glue = False
    return found, cut


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word)) if word else ""
    except ValueError:  # A quote is still open.
        return word.lstrip("'\"")
