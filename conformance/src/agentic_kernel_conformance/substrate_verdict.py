"""The verdict about one trial: what the log of its marks and commits must look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from .rules import broken, expect
from .substrate_bounds import Bounds
from .substrate_script import tokens
from .substrate_trial import Seen, Trial


class MarkLedger:
    """The marks of one trial, counted from its log.

    Args:
        trial: The trial; it may still go on.
        bounds: The bounds that the substrate declares.
    """

    def __init__(self, trial: Trial, bounds: Bounds) -> None:
        self._trial, self._bounds = trial, bounds
        self.first: list[str] = []
        """The tokens that were made, in the order of the first time."""
        self.again: list[str] = []
        """The tokens that were made once more, of which the record must tell."""
        self.uncertain: set[str] = set()
        """The tokens whose marks may or may not have been made, because of a crash."""
        self._count = Counter[str]()
        self._settled: dict[str, str] = {}
        """The commit that settled a token."""
        self._asked: list[str] = []
        self._unsettled: list[str] = []
        self._repeatable: list[str] = []
        self._crashed = False
        for seen in trial.log:
            self._take(seen)

    def _take(self, seen: Seen) -> None:
        if seen.what == "asked":
            self._asked.append(seen.name)
        elif seen.what == "made":
            self._made(seen.name)
        elif seen.what == "committed" and seen.settles:
            self._settled |= dict.fromkeys(self._unsettled, seen.name)
            self._unsettled.clear()
        elif seen.what in ("crashed", "expired"):
            self._crashed = True
            flying = [token for token in self._asked if not self._count[token]]
            self._repeatable = [*self._unsettled[-self._bounds.repeats :], *flying]
            self.uncertain |= {*self._repeatable, *self._next()}

    def _made(self, token: str) -> None:
        self._count[token] += 1
        rule = "extras" if token in self._trial.extras else "progress"
        if self._count[token] <= max(1, self._trial.extras.count(token)):
            self.first.append(token)
        elif token in self._settled:
            raise self._broken(
                rule,
                f"the mark {token} was made again, although commit {self._settled[token]} came "
                "after it and was acknowledged by the store",
            )
        elif token not in self._repeatable:
            why = (
                f"no commit with new state came between it and the crash, and more than the "
                f"{self._bounds.repeats} declared marks (Bounds.repeats) were lost"
                if self._crashed
                else "no process had died"
            )
            raise self._broken(rule, f"the mark {token} was made again: {why}")
        elif self._bounds.after_crash != "repeated":
            self.again.append(token)
        self._unsettled.append(token)

    def _next(self) -> list[str]:
        """The script's mark and the extra's mark that come next, and may be announced."""
        return [
            token
            for wanted in (tokens(self._trial.script), self._trial.extras)
            for token in [t for t in wanted if not self._count[t] and t not in self.uncertain][:1]
        ]

    def judge(self, reported: Sequence[str], *, whole: bool) -> None:
        """Raise if an effect happened twice, or not at all, or in the wrong order.

        Args:
            reported: The texts of the record that call an outcome indeterminate.
            whole: True if the Task says that it did all its work.
        """
        known = {token for token in self.uncertain if any(token in text for text in reported)}
        for token in self.again:
            if token not in known or self._bounds.after_crash == "once":
                raise self._broken(
                    "once",
                    f"the mark {token} was made {self._count[token]} times, and the record calls "
                    "no such mark indeterminate; the process died after the first time, before "
                    "the commit that settles it. Announce an effect by a commit before it; or "
                    "declare Bounds(after_crash='repeated')",
                )
        script = tokens(self._trial.script)
        for name, wanted in (("script", script), ("extras", self._trial.extras)):
            made = [token for token in self.first if token in wanted]
            order = [token for token in wanted if token in made]
            rule = "progress" if name == "script" else "extras"
            if made != order:
                raise self._broken(
                    rule, f"the marks of the {name} came as {made}, and were asked for as {order}"
                )
        if whole:
            self._complete(script, known)

    def _complete(self, wanted: Sequence[str], known: Collection[str]) -> None:
        for token in wanted:
            if not self._count[token] and token not in known:
                raise self._broken(
                    "progress" if token not in self.uncertain else "once",
                    f"the Task succeeded, the mark {token} was never made, and the record does "
                    "not call it indeterminate",
                )

    def _broken(self, rule: str, seen: str) -> Exception:
        return broken(rule, f"{seen}\n{self._trial.story()}")


def in_steps(trial: Trial, bounds: Bounds) -> None:
    """Raise if a pause came later than the declared number of steps."""
    for place, seen in enumerate(trial.log):
        if seen.what != "pause" or not seen.name:
            continue  # Asked for between two marks: the step in progress may begin one.
        begun = 0
        for later in trial.log[place + 1 :]:
            if later.what in ("paused", "ended", "crashed"):
                break
            begun += later.what == "asked"
        expect(
            begun < bounds.steps,
            "safe",
            f"a pause was asked for while a mark waited, and {begun} further marks were begun "
            f"before the Task was paused or ended; Bounds.steps is {bounds.steps}, the step in "
            f"progress included\n{trial.story()}",
        )
