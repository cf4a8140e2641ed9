"""Causes: an error, and what led to it, told without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from agentic_kernel import InvalidValue

from .errors import GuardError

LONGEST: Final = 2_000
"""The most characters of a message; the rest is cut."""
DEEPEST: Final = 8
"""The most causes of causes that are told."""
_CODE: Final = re.compile(r"[a-z_]{1,40}(?:/[a-z_]{1,40}[0-9]{0,3})?")
Told = ParamSpec("Told")
Answer = TypeVar("Answer")


class Cleans(Protocol):
    """Has a way to take secrets out of a text."""

    def _clean(self, text: str) -> str: ...


Cleaner = TypeVar("Cleaner", bound=Cleans)


def redacting(
    method: Callable[Concatenate[Cleaner, Told], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Cleaner, Told], Coroutine[Any, Any, Answer]]:
    """A method whose errors and their causes tell no secret of the arguments or the driver."""

    @wraps(method)
    async def cleaned(self: Cleaner, /, *args: Told.args, **kwargs: Told.kwargs) -> Answer:
        try:
            return await method(self, *args, **kwargs)
        except GuardError as error:
            error.message = shortened(self._clean(error.message))
            error.args = error.code, error.message
            caused(error, self._clean)
            raise
        except InvalidValue as error:
            error.path, error.reason = self._clean(error.path), self._clean(error.reason)
            error.args = error.path, error.reason
            caused(error, self._clean)
            raise

    return cleaned


class Cause(Exception):
    """Stands for an exception: its type, its text without secrets, and its traceback.

    A traceback and a logged error show their causes, so the causes tell no secret either.
    """


def caused(error: BaseException | None, clean: Callable[[str], str], left: int = DEEPEST) -> None:
    """Replace the causes of an error."""
    if error is not None:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        error.__context__ = None
        error.__cause__ = _told(cause, clean, left)


def coded(code: object) -> str:
    """The code of a driver's error; another one for what is no word, because it is shown."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "guard/no_effect"


def shortened(text: str) -> str:
    """The beginning of a long message. What was shortened before stays as it is."""
    return text if len(text) <= LONGEST + 40 else f"{text[:LONGEST]}… [{len(text):,} characters]"


def _told(error: BaseException | None, clean: Callable[[str], str], left: int) -> Cause | None:
    if error is None or left == 0 or isinstance(error, Cause):
        return error if isinstance(error, Cause) else None
    try:
        text = str(error)
    except Exception:  # The exception is a stranger's.
        text = "its text cannot be read"
    said = Cause(f"{type(error).__name__[:80]}: {text}" if text else type(error).__name__[:80])
    said.args = (clean(said.args[0]),)
    said.__traceback__ = error.__traceback__
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    said.__cause__ = _told(cause, clean, left - 1)
    return said
