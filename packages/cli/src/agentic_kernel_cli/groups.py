"""Groups: a verb with commands below it, which names them to a person who gives another word."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from .text import label


class Group(TyperGroup):
    """A group of commands below a verb."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `TyperGroup`.

        Raises:
            BadParameter: There is no such command; the message names those that there are.
        """
        given = args[0]
        if not given.startswith("-") and given not in self.commands:
            from difflib import get_close_matches

            near = get_close_matches(given[:60], self.commands, 1)
            hint = f"did you mean {near[0]}? Use " if near else "use "
            raise typer.BadParameter(
                f"'{label(given, 60)}' is not a command of {ctx.command_path}; "
                f"{hint}{', '.join(self.commands)}",
                ctx,
            )
        return super().resolve_command(ctx, args)
