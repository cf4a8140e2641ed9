"""Inputs: the parts of a Task that a ready-made Runtime takes; it refuses the others at dispatch.

Each ready-made Runtime declares its `Inputs`. Its substrate or its planner checks each Task against
them before anything is written. So no input is dropped in silence. The table of the documentation
is made from the same declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentic_kernel import CannotStart, Task

SESSION: Final = "engine/session"
"""Metadata of a Task: the name of its conversation, which is the scope of its memory."""
CONTINUES: Final = "engine/continues"
"""Metadata of a Task: the id of the earlier Task whose transcript it starts from."""
IMAGES: Final = "input/images"
"""Metadata of a Task: the images that belong to its instructions, a list."""
DOCUMENTS: Final = "input/documents"
"""Metadata of a Task: the PDF files that belong to its instructions, a list."""
OUTPUT_SCHEMA: Final = "engine/output_schema"
"""Metadata of a Task: the JSON Schema that its result must fit; None asks for text."""
_SHARED: Final = "input/"
"""The scope of the inputs that several Runtimes share."""
_LINEAGE: Final = "lineage_of"
"""A name that `rerun` may add under any scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The parts of a Task, and the parts of a configuration, that one Runtime takes.

    Metadata under the Runtime's own scope, and under the shared scope ``input/``, must be known.
    Metadata under any other scope is for others, and is not looked at.
    """

    scope: str
    """The scope of the Runtime's own metadata keys, e.g. ``openai``."""
    options: tuple[str, ...] = ()
    """Names of the options that a Task sets by ``<scope>/<name>`` in its metadata."""
    agent: bool = False
    """True if it takes ``Task.agent_name``: the capabilities of the Agent, or its name alone."""
    session: bool = False
    """True if it takes the metadata `SESSION`."""
    continues: bool = False
    """True if it takes the metadata `CONTINUES`."""
    images: str = ""
    """The forms in which it takes the metadata `IMAGES`, in words; "" if it takes none."""
    documents: str = ""
    """The same for the metadata `DOCUMENTS`."""
    limits: tuple[str, ...] = ()
    """Names of the fields of `Limits` that it keeps."""
    tools: bool = False
    """True if it takes tools, and a policy that decides about their calls."""
    agents: bool = False
    """True if it takes agents as tools, and so delegates."""
    schema: bool = False
    """True if it takes a JSON Schema that the answer must fit."""

    def check(self, task: Task) -> None:
        """Refuse a Task with an input that the Runtime does not take.

        Raises:
            CannotStart: The message names the input and the remedy.
        """
        if task.agent_name is not None and not self.agent:
            raise CannotStart(
                f"agent_name is {task.agent_name!r}, and the {self.scope} runtime has no Agents; "
                "leave agent_name out, or run the Task on a Loop",
                task.id,
            )
        for key, taken, remedy in (
            (SESSION, self.session, "leave it out, or run the Task on a Loop with a memory"),
            (
                CONTINUES,
                self.continues,
                "leave it out, and say in the instructions what was said before",
            ),
            (IMAGES, self.images, "leave it out, or use a runtime whose model sees images"),
            (
                DOCUMENTS,
                self.documents,
                "leave it out, or use a runtime whose model reads PDF",
            ),
            (OUTPUT_SCHEMA, self.schema, "leave it out, or run the Task on a Loop"),
        ):
            if key in task.metadata and not taken:
                raise CannotStart(
                    f"the {self.scope} runtime does not take {key!r}; {remedy}", task.id
                )
        own = f"{self.scope}/"
        for key in task.metadata:
            if key.startswith(_SHARED) and key not in (IMAGES, DOCUMENTS, _SHARED + _LINEAGE):
                if key not in task.noted:
                    raise CannotStart(
                        f"there is no input {key!r}; use {IMAGES!r} or {DOCUMENTS!r}, or leave it "
                        "out; metadata of your own needs a scope of its own",
                        task.id,
                    )
            elif key.startswith(own) and key not in task.noted:
                name = key[len(own) :]
                if name not in self.options and name != _LINEAGE:
                    known = ", ".join(own + each for each in self.options) or "none"
                    raise CannotStart(
                        f"there is no option {key!r}; use one of: {known}; or leave it out", task.id
                    )
