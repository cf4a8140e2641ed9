"""Factories that make no substrate; the worker processes of a test call them."""

from __future__ import annotations

import os
from typing import NoReturn


def raises() -> NoReturn:
    raise LookupError("no mesh at 127.0.0.1")


def ends_the_process() -> NoReturn:
    os._exit(3)


async def leaves() -> NoReturn:
    raise SystemExit("no license")
