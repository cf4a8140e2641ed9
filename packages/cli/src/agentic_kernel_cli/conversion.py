"""Conversion: values of the command line that need no library are converted here.

Typer converts every value by pydantic, also a text into a text and None into None. The import of
pydantic takes a third of the time of `list`. So pydantic is left to the values that need it, and to
those that are wrong, because its message says why.
"""

from __future__ import annotations

from typing import Any

_DIGITS = 15
"""The most digits of an integer that is converted here."""


class Plain:
    """The conversion of one parameter; it loads that of Typer for the first value that needs it.

    Args:
        parameter: A parameter of Typer.
    """

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter
        self._typers = parameter.get_runtime_param

    def itself(self) -> Plain:
        """This object, in the place of Typer's function that makes the conversion."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a value, as a parameter of Typer does."""
        mine = self._parameter
        several = mine.multiple or mine.nargs != 1
        if value is None:
            return () if several else None
        if not several:
            if value is mine.default:
                return value
            if type(value) is str and (read := _read(value, mine.type_descriptor)) is not None:
                return read
        return self._typers().coerce(value, param=param, ctx=ctx)


def _read(value: str, wanted: Any) -> Any:
    """The value of a text, an integer within its bounds or a choice; None for all others."""
    if wanted.annotation is str:
        return value
    if wanted.annotation is int and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        least, most = wanted.parameter_info.min, wanted.parameter_info.max
        number = int(value)
        low = least is not None and number < least
        return None if low or (most is not None and number > most) else number
    return value if value in (wanted.choices or ()) else None


def spare(command: Any) -> None:
    """Let the parameters of a command, and of those below it, use `Plain`."""
    parameters = command.get_params

    def spared(context: Any) -> list[Any]:
        found: list[Any] = parameters(context)
        for each in found:
            # Typer makes the option --help anew for its first use. A version of Typer without this
            # function converts as it likes: the command then starts later.
            if hasattr(each, "get_runtime_param") and "get_runtime_param" not in vars(each):
                each.get_runtime_param = Plain(each).itself
        return found

    command.get_params = spared
    for below in dict(getattr(command, "commands", ())).values():
        spare(below)
