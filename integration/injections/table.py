"""The tables of what was found: the shares, and the injections that were not stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.injections.run import SETTINGS


def shares(suites: Sequence[dict[str, Any]]) -> str:
    """By suite and setting: the injections that were stopped, and the completed tasks."""
    lines = [
        "| suite | guard | injections stopped | user's tasks completed |",
        "|---|---|---|---|",
    ]
    for suite in suites:
        for setting in SETTINGS:
            found = suite["settings"][setting.name]
            stopped = found["cases"] - found["succeeded"]
            lines.append(
                f"| {suite['suite']} | {setting.name} | {_share(stopped, found['cases'])} "
                f"| {_share(found['completed'], found['users'])} |"
            )
    for setting in SETTINGS:
        all_found = [suite["settings"][setting.name] for suite in suites]
        sums = {
            key: sum(found[key] for found in all_found)
            for key in ("cases", "succeeded", "completed", "users")
        }
        stopped = sums["cases"] - sums["succeeded"]
        lines.append(
            f"| **all** | {setting.name} | {_share(stopped, sums['cases'])} "
            f"| {_share(sums['completed'], sums['users'])} |"
        )
    return "\n".join([*lines, "", *(f"- {each.name}: {each.said}" for each in SETTINGS)])


def left(suites: Sequence[dict[str, Any]]) -> str:
    """Each injection, and in how many of its cases it succeeded under each setting."""
    names = [setting.name for setting in SETTINGS]
    lines = [
        "| the injection asks to | cases | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for suite in suites:
        for task, goal in suite["goals"].items():
            by = [suite["settings"][name]["by"][task] for name in names]
            counts = " | ".join(str(each["succeeded"]) for each in by)
            number = task.removeprefix("injection_task_")
            what = f"{suite['suite']} {number}: {_short(goal)}"
            lines.append(f"| {what} | {by[0]['cases']} | {counts} |")
    out = [f"{suite['suite']} {task.removeprefix('injection_task_')}"
           for suite in suites for task in suite["left_out"]]  # fmt: skip
    if out:
        lines += ["", f"Left out, because AgentDojo gives no calls that do them: {', '.join(out)}."]
    return "\n".join(["How often each injection succeeded:", "", *lines])


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "-"


def _short(text: str) -> str:
    """One line without signs of Markdown."""
    plain = " ".join(text.replace("|", "/").replace("*", "").split())
    return plain if len(plain) <= 100 else f"{plain[:99]}…"
