"""Grants: what the person at this terminal lets stored Tasks use. Nothing else is used.

A Task says in its metadata which runtime, model, tools and folder it was started with. Whoever can
write to the store can write that, so it is a wish and no permission. What a Task gets comes from
the flags of this command line (those of ``run``), or from a confirmation at the terminal:

- The local model without tools needs no grant.
- Another runtime needs ``--runtime NAME``, because the person's account pays for it; a model that
  the Task names needs ``--model``.
- Tools need ``--tools`` with all of them; ``write`` needs ``--workspace`` with the same folder.
- Writing without approvals needs ``--yes``. It is never taken from the Task and never confirmed:
  without the flag the Task runs, and asks before each write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart, InvalidValue, Task

from .kinds import LOCAL, LOCAL_TOOLS
from .text import command_line, label
from .toolbox import TOOLS_KEY, WORKSPACE_KEY, YES_KEY, Toolbox

MODEL_KEY: Final = "cli/model"
API_KEY: Final = "cli/api"


LEFT: Final = 5
"""Exit code when Tasks were left as they are: they ask for more than was granted, or for a Host
that serves another kind."""


class NotGranted(CannotStart):
    """A stored Task asks for more than this command line grants; it is left as it is.

    Attributes:
        words: The flags that grant it.
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
    """What a stored Task asks for. It is shown to a person, and is no permission."""

    runtime: str
    model: str | None = None
    tools: tuple[str, ...] = ()
    workspace: str | None = None
    yes: bool = False

    @classmethod
    def of(cls, task: Task) -> Wish:
        """What this Task asks for.

        Raises:
            CannotStart: Its metadata is not of the form that this command writes.
        """
        kind = task.runtime_kind
        runtime = LOCAL if kind == LOCAL_TOOLS else kind
        model = None if runtime == LOCAL else _text(task, MODEL_KEY)
        names: Any = task.metadata.get(TOOLS_KEY)
        if kind == LOCAL or (names is None and kind != LOCAL_TOOLS):
            return cls(runtime, model)
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise _malformed(task, TOOLS_KEY, "must be a list of names")
        workspace = _text(task, WORKSPACE_KEY) if "write" in names else None
        if "write" in names and workspace is None:
            raise _malformed(task, WORKSPACE_KEY, "must be a folder; the tool write needs one")
        return cls(runtime, model, tuple(names), workspace, task.metadata.get(YES_KEY) is True)

    def words(self) -> list[str]:
        """The flags that grant it, except ``--yes``, which a person says unasked."""
        found = [] if self.runtime == LOCAL else ["--runtime", self.runtime]
        if self.model is not None:
            found += ["--model", self.model]
        if self.tools:
            found += ["--tools", ",".join(self.tools)]
        if self.workspace is not None:
            found += ["--workspace", self.workspace]
        return found

    def lines(self) -> list[str]:
        """What it asks for, for people; every character can be seen."""
        found = [] if self.runtime == LOCAL else [f"the runtime {label(self.runtime)}"]
        if self.model is not None:
            found.append(f"the model {label(self.model)}")
        if self.tools:
            found.append(f"the tools {', '.join(map(label, self.tools))}")
        if self.workspace is not None:
            found.append(f"writing in {label(self.workspace)}")
        if self.yes:
            found.append("writing without an approval, which only --yes grants")
        return found


@dataclass(frozen=True)
class Grant:
    """What one command line lets Tasks use."""

    runtime: str = LOCAL
    """Which runtime may be used beside the local one."""
    model: str | None = None
    """Of that runtime: a name, or the file of the local model."""
    box: Toolbox | None = None

    def covers(self, wish: Wish) -> bool:
        """Whether it lets a Task have all that it asks for, approvals aside."""
        if wish.runtime not in (LOCAL, self.runtime):
            return False
        if wish.model is not None and self.model is None:
            return False
        if not wish.tools:
            return True
        if self.box is None or not set(wish.tools) <= set(self.box.names):
            return False
        return wish.workspace is None or wish.workspace == str(self.box.workspace)

    def confirmed(self, wish: Wish) -> Grant:
        """This grant and, with it, what a person has seen and confirmed.

        Raises:
            InvalidValue: There is no such tool, or the folder is not there.
        """
        box = None
        if wish.tools:
            folder = None if wish.workspace is None else Path(wish.workspace)
            box = Toolbox(wish.tools, folder, self.box is not None and self.box.yes)
        return Grant(wish.runtime, self.model_of(wish) or wish.model, box)

    def model_of(self, wish: Wish) -> str | None:
        """The model that a Task is worked on with; None for the runtime's own."""
        return self.model if wish.runtime == self.runtime else None

    def box_of(self, task: Task) -> Toolbox | None:
        """The tools that a Task gets: those that it asks for, as far as they are granted.

        Raises:
            NotGranted: It asks for more.
            CannotStart: What it asks for is malformed.
        """
        wish = Wish.of(task)
        if not self.covers(wish):
            raise NotGranted(task.id, wish)
        if not wish.tools:
            return None
        assert self.box is not None  # It covers the wish.
        return replace(self.box, names=wish.tools)


Grants = Mapping[str, Grant]
"""What each of these Tasks, by id, may use; another Task may use nothing and is not run."""


def grant_of(
    runtime: str | None = None,
    model: str | None = None,
    tools: str | None = None,
    workspace: Path | None = None,
    yes: bool = False,
) -> Grant:
    """What these flags grant.

    Raises:
        InvalidValue: They do not go together, or one is not valid.
    """
    box = None
    if tools is not None:
        box = Toolbox(tuple(filter(None, tools.split(","))), workspace, yes)
    elif workspace is not None or yes:
        raise InvalidValue("--workspace and --yes", "are for --tools")
    return Grant(LOCAL if runtime is None else runtime, model, box)


def _text(task: Task, key: str) -> str | None:
    found = task.metadata.get(key)
    if found is not None and (not isinstance(found, str) or not found):
        raise _malformed(task, key, "must be a text")
    return found


def _malformed(task: Task, key: str, reason: str) -> CannotStart:
    return CannotStart(str(InvalidValue(f"Task.metadata[{key!r}]", reason)), task.id)
