"""Checks: a package finds out if this machine has what it needs, with a remedy for a failure."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

PATIENCE: Final = 5.0
"""Seconds to wait for the answer of a server."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    advice: str = ""
    """The remedy if the check failed."""


def key_check(name: str, *variables: str) -> Check:
    """Check that one of the environment variables of a key is set; the key is not shown."""
    there = next((each for each in variables if os.environ.get(each)), None)
    if there is not None:
        return Check(name, True, f"{there} is set")
    return Check(name, False, f"{variables[0]} is not set", f"set {variables[0]}")


async def server_check(name: str, address: str, variable: str) -> Check:
    """Connect to a server and send nothing, so that no key leaves this machine.

    Args:
        name: The name of the check.
        address: The address that is used if the variable is not set.
        variable: The environment variable of the address.
    """
    given = os.environ.get(variable) or address
    where = urlsplit(given if "://" in given else f"http://{given}")
    advice = f"check the network, or the address in {variable}"
    try:
        port = where.port or {"https": 443, "http": 80}[where.scheme]
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(where.hostname, port)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    except (OSError, ValueError, KeyError) as error:
        return Check(name, False, f"{where.hostname}: {str(error) or 'no answer'}", advice)
    return Check(name, True, f"{where.hostname}:{port} answers")
