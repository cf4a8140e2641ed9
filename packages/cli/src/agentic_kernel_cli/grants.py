"""Grants: the runtime, model, tools and folder that the person at this terminal lets Tasks use.

A stored Task names the runtime, model, tools and folder that it was started with. Every process
that can write to the store can write this. So it is a wish and not a permission. The permission
comes from the flags of this command line (those of ``run``), or from a confirmation at the
terminal:

- The local model without tools needs no grant.
- Another runtime needs ``--runtime NAME``, because the person's account pays for it; a model that
  the Task names needs ``--model``, and an option ``--option`` with the same name.
- Tools need ``--tools`` with all their names; ``write`` needs ``--workspace`` with the same folder.
- MCP servers need ``--mcp`` with the same file, because the file says which programs are started.
- Changes without approvals need ``--yes``. This permission never comes from the Task or from a
  confirmation: without the flag the Task runs, and asks before each change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart, InvalidValue, Task

from .kinds import LOCAL, LOCAL_TOOLS, entry_of, runtime_of
from .text import command_line, label
from .toolbox import MCP_KEY, TOOLS_KEY, WORKSPACE_KEY, YES_KEY, Toolbox

MODEL_KEY: Final = "cli/model"
API_KEY: Final = "cli/api"
OPTIONS_KEY: Final = "cli/options"

Options = tuple[tuple[str, str], ...]
"""Options of a runtime: names and values, as texts, in the order of names."""


class LeftAlone(CannotStart):
    """This command may not run a stored Task, so it leaves the Task as it is for another one."""


class NotGranted(LeftAlone):
    """A stored Task asks for more than this command line grants; the Task is left as it is.

    Attributes:
        words: The flags that grant what the Task asks for, except ``--yes``.
    """

    def __init__(self, task_id: str, wish: Wish) -> None:
        self.words = tuple(wish.words())
        super().__init__(
            f"it asks for {', '.join(wish.lines())}; this command line does not grant that. "
            f"If you want it, add: {command_line(self.words)}",
            task_id,
        )


@dataclass(frozen=True)
class Wish:
    """The things that a stored Task asks for. A person sees the wish; it is not a permission."""

    runtime: str
    model: str | None = None
    tools: tuple[str, ...] = ()
    workspace: str | None = None
    yes: bool = False
    mcp: str | None = None
    options: Options = ()

    @classmethod
    def of(cls, task: Task) -> Wish:
        """Read the wish of a Task.

        Raises:
            CannotStart: The Task's metadata does not have the form that this command writes.
        """
        kind = task.runtime_kind
        runtime = runtime_of(kind)
        model = None if runtime == LOCAL else _text(task, MODEL_KEY)
        options = () if runtime == LOCAL else _options(task)
        names: Any = task.metadata.get(TOOLS_KEY)
        if kind == LOCAL or (names is None and kind != LOCAL_TOOLS):
            return cls(runtime, model, options=options)
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise _malformed(task, TOOLS_KEY, "must be a list of the names of tools")
        workspace = _text(task, WORKSPACE_KEY) if "write" in names else None
        if "write" in names and workspace is None:
            raise _malformed(task, WORKSPACE_KEY, "must be a folder; the tool write needs one")
        yes, mcp = task.metadata.get(YES_KEY) is True, _text(task, MCP_KEY)
        return cls(runtime, model, tuple(names), workspace, yes, mcp, options)

    def words(self) -> list[str]:
        """The flags that grant the wish, except ``--yes``, which the command never proposes."""
        found = [] if self.runtime == LOCAL else ["--runtime", self.runtime]
        if self.model is not None:
            found += ["--model", self.model]
        for name, value in self.options:
            found += ["--option", f"{name}={value}"]
        if self.tools:
            found += ["--tools", ",".join(self.tools)]
        if self.workspace is not None:
            found += ["--workspace", self.workspace]
        if self.mcp is not None:
            found += ["--mcp", self.mcp]
        return found

    def lines(self) -> list[str]:
        """The wish in words, one text for each thing; every character is visible."""
        found = [] if self.runtime == LOCAL else [f"the runtime {label(self.runtime)}"]
        if self.model is not None:
            found.append(f"the model {label(self.model)}")
        found += [f"the option {label(name)}={label(value)}" for name, value in self.options]
        if self.tools:
            found.append(f"the tools {', '.join(map(label, self.tools))}")
        if self.workspace is not None:
            found.append(f"writing in {label(self.workspace)}")
        if self.mcp is not None:
            found.append(f"starting the MCP servers that {label(self.mcp)} lists")
        if self.yes:
            found.append("changes without an approval, which only --yes grants")
        return found


@dataclass(frozen=True)
class Grant:
    """The runtime, model and tools that one command line lets Tasks use."""

    runtime: str = LOCAL
    """The runtime that Tasks may use, besides the local one."""
    model: str | None = None
    """The name of a model of that runtime, or the file of the local model."""
    box: Toolbox | None = None
    options: Options = ()
    """The options of that runtime."""

    def flags(self) -> list[str]:
        """The names of the flags that make it, in the order of the help."""
        box = self.box
        given = {
            "--runtime": self.runtime != LOCAL,
            "--model": self.model is not None,
            "--option": bool(self.options),
            "--tools": box is not None and bool(box.names),
            "--workspace": box is not None and box.workspace is not None,
            "--yes": box is not None and box.yes,
            "--mcp": box is not None and box.mcp is not None,
            "--accept-tools": box is not None and box.accept_tools,
        }
        return [name for name, there in given.items() if there]

    def covers(self, wish: Wish) -> bool:
        """True if the grant allows the whole wish; ``yes`` is not compared."""
        if wish.runtime not in (LOCAL, self.runtime):
            return False
        if wish.model is not None and self.model is None:
            return False
        if not {name for name, _ in wish.options} <= {name for name, _ in self.options}:
            return False
        if not wish.tools and wish.mcp is None:
            return True
        if self.box is None or not set(wish.tools) <= set(self.box.names):
            return False
        if wish.mcp is not None and wish.mcp != str(self.box.mcp):
            return False
        return wish.workspace is None or wish.workspace == str(self.box.workspace)

    def matches(self, wish: Wish) -> bool:
        """True if the model and the options are those of the wish, or the wish names none."""
        granted = self.options_of(wish)
        return wish.model in (None, self.model_of(wish)) and set(wish.options) <= set(granted)

    def confirmed(self, wish: Wish) -> Grant:
        """Return a grant for this wish, which a person has seen and confirmed.

        ``yes`` comes from this grant alone. So do the model and each option, if this grant names
        one for the runtime of the wish.

        Raises:
            InvalidValue: A tool of the wish does not exist, or its folder or file does not exist.
        """
        box = None
        if wish.tools or wish.mcp is not None:
            folder = None if wish.workspace is None else Path(wish.workspace)
            file = None if wish.mcp is None else Path(wish.mcp)
            own = self.box
            yes, accept = (False, False) if own is None else (own.yes, own.accept_tools)
            box = Toolbox(wish.tools, folder, yes, mcp=file, accept_tools=accept)
        options = dict(wish.options) | dict(self.options_of(wish))
        return Grant(
            wish.runtime, self.model_of(wish) or wish.model, box, tuple(sorted(options.items()))
        )

    def model_of(self, wish: Wish) -> str | None:
        """The model for a Task with this wish; None if this grant names none for its runtime."""
        return self.model if wish.runtime == self.runtime else None

    def options_of(self, wish: Wish) -> Options:
        """The options for a Task with this wish."""
        return self.options if wish.runtime == self.runtime else ()

    def box_of(self, task: Task) -> Toolbox | None:
        """Return the tools that a Task asks for, if this grant covers them; None without tools.

        Raises:
            NotGranted: The Task asks for more than this grant.
            CannotStart: The metadata of the Task is malformed.
        """
        wish = Wish.of(task)
        if not self.covers(wish):
            raise NotGranted(task.id, wish)
        if not wish.tools and wish.mcp is None:
            return None
        assert self.box is not None  # The grant covers the wish.
        if wish.mcp is None:
            return replace(self.box, names=wish.tools, mcp=None, registry=None)
        return replace(self.box, names=wish.tools)


Grants = Mapping[str, Grant]
"""The grant of each Task, by its id. A Task without an entry is not run."""


def check_no_flags(grant: Grant, runner: str) -> None:
    """Refuse the flags of the command's own runtimes for a Task that it does not run itself.

    Args:
        runner: The words for the Host that runs it.

    Raises:
        InvalidValue: There is such a flag.
    """
    refuse_flags(grant.flags(), runner)


def refuse_flags(names: Sequence[str], runner: str) -> None:
    """Refuse these flags, as `check_no_flags` does.

    Raises:
        InvalidValue: There is one.
    """
    given = " and ".join(names)
    if given:
        raise InvalidValue(
            given,
            f"{runner} runs this Task, and it has its own model, tools and consent; leave {given} "
            "out",
        )


def grant_of(
    runtime: str | None = None,
    model: str | None = None,
    tools: str | None = None,
    workspace: Path | None = None,
    yes: bool = False,
    mcp: Path | None = None,
    accept_tools: bool = False,
    options: Sequence[str] | None = None,
) -> Grant:
    """Return what these flags grant.

    Args:
        options: Texts of the form ``NAME=VALUE``.

    Raises:
        InvalidValue: A flag is not valid, or is without the flag that it belongs to.
    """
    box = None
    if accept_tools and mcp is None:
        raise InvalidValue("--accept-tools", "works only with --mcp; add it, or remove this one")
    if tools is not None or (mcp is not None and workspace is None):
        names = tuple(filter(None, (tools or "").split(",")))
        if tools is not None and not names:
            Toolbox(())  # Raises: an empty --tools is a mistake, with or without servers.
        box = Toolbox(names, workspace, yes, mcp=mcp, accept_tools=accept_tools)
    elif workspace is not None or yes:
        raise InvalidValue(
            "--workspace and --yes", "work only with --tools; add it, or remove them"
        )
    runtime = LOCAL if runtime is None else runtime
    return Grant(runtime, model, box, _given(runtime, options or ()))


def _given(runtime: str, texts: Sequence[str]) -> Options:
    """The options that ``--option`` gives, held against the types that the runtime declares.

    Raises:
        InvalidValue: The runtime has no such option, or the value has another type.
    """
    if not texts:
        return ()
    from agentic_kernel_engine.discovery import read_options

    pairs = []
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark:
            raise InvalidValue("--option", f"is {label(text, 60)}; give NAME=VALUE")
        pairs.append((name, value))
    read_options(entry_of(runtime), pairs, f"--option of {runtime}")
    return tuple(sorted(pairs))


def _options(task: Task) -> Options:
    found: Any = task.metadata.get(OPTIONS_KEY)
    if found is None:
        return ()
    if not isinstance(found, Mapping) or not all(isinstance(each, str) for each in found.values()):
        raise _malformed(task, OPTIONS_KEY, "must be an object of texts")
    return tuple(sorted(found.items()))


def _text(task: Task, key: str) -> str | None:
    found = task.metadata.get(key)
    if found is not None and (not isinstance(found, str) or not found):
        raise _malformed(task, key, "must be a text that is not empty")
    return found


def _malformed(task: Task, key: str, reason: str) -> CannotStart:
    return CannotStart(str(InvalidValue(f"Task.metadata[{key!r}]", reason)), task.id)
