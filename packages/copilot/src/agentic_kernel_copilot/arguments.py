"""Arguments: checks of the values that a user gives to `CopilotSubstrate`.

The SDK and the CLI would find out about them only when the first Task begins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentic_kernel import InvalidValue
from agentic_kernel_engine import edges, values
from agentic_kernel_engine.providers import check_name


def check_config(value: Any, path: str, *apart: str) -> None:
    """Refuse a value that is neither None nor a mapping of JSON.

    Args:
        apart: Names of fields that are no JSON, e.g. functions.

    Raises:
        InvalidValue: It is neither; the path of the bad part is named.
    """
    if value is None:
        return
    found = dict(edges.entries(value, path))
    values.check({name: each for name, each in found.items() if name not in apart}, path)


def check_servers(servers: Any) -> None:
    """Refuse a value that is neither None nor a mapping of names to MCP servers.

    Raises:
        InvalidValue: It is neither; the path of the bad part is named.
    """
    check_config(servers, "mcp_servers")
    for name, server in (servers or {}).items():
        check_name(name, "a key of mcp_servers")
        if not isinstance(server, Mapping):
            raise InvalidValue(
                f"mcp_servers.{name}", f"is {edges.came(server)}; give a mapping in the SDK's form"
            )


def check_message(message: Any) -> None:
    """Refuse a value that is neither None nor a text nor a mapping.

    Raises:
        InvalidValue: It is none of them, or cannot be sent.
    """
    if isinstance(message, str):
        edges.text(message, "system_message")
    else:
        check_config(message, "system_message", "sections")  # A section may have a function.


def path_of(value: Any, name: str) -> Path | None:
    """Return a path in a form that the system can look up; None for None.

    Raises:
        InvalidValue: It is not a path, is blank, or has a character that no path has.
    """
    if value is None:
        return None
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str) or not found.strip() or not _encodes(found):
        raise InvalidValue(name, f"is {edges.came(found)}; give the path of a file or a folder")
    return Path(found)


def check_environment(env: Any) -> None:
    """Refuse a value that is neither None nor a mapping of variables to texts.

    No message repeats the text of a variable, because it may be a secret.

    Raises:
        InvalidValue: It is neither, or no process can have such a variable.
    """
    for name, value in () if env is None else edges.entries(env, "env"):
        if not isinstance(name, str) or not name or "=" in name or not _encodes(name):
            raise InvalidValue("env", f"has {edges.came(name)}, which no variable is called")
        if not isinstance(value, str) or not _encodes(value):
            raise InvalidValue(
                f"env.{name}", f"is a {type(value).__name__} that no variable can have; give a text"
            )


def _encodes(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
