"""Telling: the lines that the command prints while targets are made."""

from __future__ import annotations

from agentic_kernel_engine import Event, Observer

from .builder import Verdict


def tell(verdict: Verdict) -> None:
    """Print a verdict, or progress."""
    line(verdict.outcome, verdict.target, verdict.why)


def line(word: str, target: str, more: str = "") -> None:
    """Print one line: a word of at most 8 letters, the target, and more about it."""
    print(f"{word:8} {target}{': ' if more else ''}{more}", flush=True)


class Telling(Observer):
    """Prints the lines of recipes as they begin.

    Args:
        output: True to print the output of the lines, too.
    """

    def __init__(self, output: bool = False) -> None:
        self._output = output
        self._rest: dict[str, str] = {}

    def observe(self, task_id: str, event: Event) -> None:
        """Print one event of a Task; see `Observer.observe`."""
        target, data = task_id.rpartition("-")[0], event.data
        if event.type == "build.line":
            self.ended(task_id)
            line("making", target, f"line {data['line']} of {data['of']}")
        elif event.type == "build.line_unknown":
            self.ended(task_id)
            line("unknown", target, f"{data['why']}; it is run again")
        elif event.type == "run.delta" and self._output:
            *lines, self._rest[target] = (self._rest.get(target, "") + data["text"]).split("\n")
            for each in lines:
                print(f"{target}| {each}", flush=True)

    def ended(self, task_id: str) -> None:
        """Print what is left of the output of a line that has ended."""
        target = task_id.rpartition("-")[0]
        if rest := self._rest.pop(target, ""):
            print(f"{target}| {rest}", flush=True)
