"""Serving: the parts of the server's package that `serve`, `runner` and `keys` need."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from agentic_kernel import CannotStart, InvalidValue

from .kinds import install
from .text import label

if TYPE_CHECKING:
    from agentic_kernel_engine.seams import ToolRegistry

KEY_VARIABLE: Final = "AGENTIC_KERNEL_API_KEY"
"""The API key of a runner. A key on the command line would be seen by every user of the machine."""


def loaded(name: str) -> ToolRegistry:
    """The tools that ``MODULE:NAME`` names; the module may lie in the current folder.

    Raises:
        InvalidValue: There is no such module or name, or it holds no tools.
    """
    from agentic_kernel_engine.seams import Tool, ToolRegistry, Tools

    module, mark, attribute = name.partition(":")
    if not module or not mark or not attribute:
        raise InvalidValue("--tools", f"is {label(name)}; use MODULE:NAME, e.g. my_tools:tools")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise InvalidValue("--tools", f"cannot be imported: {error}") from error
    except AttributeError as error:
        raise InvalidValue("--tools", f"{label(module)} has no {label(attribute)}") from error
    if isinstance(found, ToolRegistry):
        return found
    return (
        Tools(found)
        if isinstance(found, Tool) or not isinstance(found, Iterable)
        else Tools(*found)
    )


def installed(name: str = "agentic_kernel_server") -> ModuleType:
    """A module of the server.

    Raises:
        CannotStart: The server is not installed; the message says how to install it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing != "agentic_kernel_server":
            raise
        raise CannotStart(
            f"the server needs a package that is not installed: {install('server')}"
        ) from error


def key_file(path: Path) -> Any:
    return installed("agentic_kernel_server.security").KeyFile(path)


def shown(key: Any) -> dict[str, Any]:
    """The fields of a key that may be shown."""
    moments = {
        name: None if value is None else value.isoformat()
        for name, value in (
            ("created_at", key.created_at),
            ("expires_at", key.expires_at),
            ("revoked_at", key.revoked_at),
        )
    }
    return {
        "id": key.id,
        "principal": key.principal,
        "tenant": key.tenant,
        "scopes": sorted(key.scopes),
        **moments,
    }
