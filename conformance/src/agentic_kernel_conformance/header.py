"""The facts about a run that its report begins with, and the options that leave tests out."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

import pytest

from .level import LEVELS, Level

PARTS: Final = {
    "kit": "agentic-kernel-conformance",
    "kernel": "agentic-kernel-core",
    "engine": "agentic-kernel-engine",
}
"""The distributions whose versions a report has, by the field that has it."""
SCHEMA: Final = 2
"""The form of the JSON document; a reader refuses a form that it does not know."""


def versions() -> dict[str, str]:
    """Return the installed versions of the kit, the kernel and the engine, and Python's."""
    found: dict[str, str] = {}
    for field, name in PARTS.items():
        try:
            found[field] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[field] = "not installed"
    return {
        **found,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def header(config: pytest.Config, level: Level) -> dict[str, Any]:
    """Return the fields at the top of a report; the date is the moment of this call, in UTC."""
    return {
        "schema": SCHEMA,
        **versions(),
        "platform": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": config.getoption("--conformance-seed"),
        "level": level.name,
        "minutes": config.getoption("--conformance-minutes"),
        "keyword": config.getoption("keyword", ""),
        "marks": config.getoption("markexpr", ""),
    }


def lowered(level: Level) -> list[str]:
    """Return the reason for which the level itself makes a report partial, if it does."""
    usual = LEVELS["quick"]
    below = level.histories < usual.histories
    return [f"the level {level.name} is below {usual.name}"] if below else []


def causes(config: pytest.Config) -> list[str]:
    """Return the options of a run that leave tests out."""
    found = []
    if keyword := config.getoption("keyword", ""):
        found.append(f"-k {keyword!r}")
    if marks := config.getoption("markexpr", ""):
        found.append(f"-m {marks!r}")
    if config.getoption("maxfail", 0):
        found.append(f"--maxfail={config.getoption('maxfail')}")
    found += [f"--deselect={each}" for each in config.getoption("deselect", None) or ()]
    found += ["--last-failed"] if config.getoption("lf", False) else []
    found += [argument for argument in config.args if "::" in argument]
    return found
