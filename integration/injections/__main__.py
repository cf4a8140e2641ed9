"""Runs each case under each setting, and prints what came of them as JSON.

python -m integration.injections [SUITE...]
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from integration.injections import dojo
from integration.injections.run import SETTINGS, run
from integration.injections.score import Score


async def main(chosen: list[str]) -> list[dict[str, Any]]:
    """The scores of each suite."""
    found = []
    for name, suite in dojo.suites().items():
        if chosen and name not in chosen:
            continue
        tools = dojo.tools(suite)
        score = Score(name, {task.ID: task.GOAL for task in suite.injection_tasks.values()})
        for case in dojo.cases(suite):
            for setting in SETTINGS:
                score.add(case, setting, await run(name, tools, case, setting))
        found.append(score.record())
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1:]))))
