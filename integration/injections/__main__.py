"""Runs each case under each setting, and prints what came of them as JSON.

python -m integration.injections [SUITE...]
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from integration.injections.run import SETTINGS, run
from integration.injections.score import Score
from integration.programs import parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of the named suites, or of all of them."""
    words = parser("integration.injections", __doc__)
    words.add_argument("suites", nargs="*", metavar="SUITE", help="a suite of AgentDojo (all)")
    chosen: list[str] = words.parse_args(arguments).suites
    from integration.injections import dojo  # Needs AgentDojo, which the help does not.

    suites = dojo.suites()
    if unknown := [name for name in chosen if name not in suites]:
        words.error(f"there is no suite {unknown[0]!r}; name one of {', '.join(suites)}")
    named = {name: suites[name] for name in chosen or suites}
    print(json.dumps(asyncio.run(scores(named))))


async def scores(suites: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scores of each suite."""
    from integration.injections import dojo

    found = []
    for name, suite in suites.items():
        tools = dojo.tools(suite)
        score = Score(name, {task.ID: task.GOAL for task in suite.injection_tasks.values()})
        for case in dojo.cases(suite):
            for setting in SETTINGS:
                score.add(case, setting, await run(name, tools, case, setting))
        found.append(score.record())
    return found


if __name__ == "__main__":
    main()
