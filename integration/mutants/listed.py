"""Faults that were chosen by hand: mistakes that an able engineer makes, each breaks a rule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .sites import Mutant

_HOST = "packages/engine/src/agentic_kernel_engine/host"
_LOOP = "packages/engine/src/agentic_kernel_engine/loop"
_FILE = "packages/file/src/agentic_kernel_file"


@dataclass(frozen=True, slots=True)
class Listed:
    """A fault in words and in text.

    Args:
        file: The path of the file in the repository.
        story: What the mistake is.
        old: A text that the file has exactly once.
        new: What stands there instead.
    """

    file: str
    story: str
    old: str
    new: str


class OutOfDate(Exception):
    """A listed fault does not fit the code any more; it must be written anew here."""


def listed_mutants(root: Path) -> list[Mutant]:
    """Return the listed faults as mutants.

    Raises:
        OutOfDate: A file has the text of a fault not exactly once.
    """
    return [_mutant(root, listed) for listed in LISTED]


def _mutant(root: Path, listed: Listed) -> Mutant:
    text = (root / listed.file).read_text(encoding="utf-8")
    count = text.count(listed.old)
    if count != 1:
        raise OutOfDate(
            f"{listed.file} has the text of “{listed.story}” {count} times, and must have it once; "
            "write the fault anew in integration/mutants/listed.py"
        )
    begin = text.index(listed.old)
    line = text.count("\n", 0, begin) + 1
    end = begin + len(listed.old)
    return Mutant(listed.file, listed.story, line, begin, end, listed.old, listed.new, "listed")


LISTED = (
    Listed(
        f"{_HOST}/live_runs.py",
        "a Host lets go of a Task that belongs to another owner by now (R1)",
        "if owner is None or before.owner != owner:",
        "if owner is None:",
    ),
    Listed(
        f"{_HOST}/live_runs.py",
        "a run that another process may repeat counts its attempts anew (R21)",
        "attempts = 0 if anew else max(before.attempts - uncounted, 0)",
        "attempts = 0",
    ),
    Listed(
        f"{_HOST}/live_runs.py",
        "a Task that is paused while its run leaves keeps the request of that pause (R10)",
        "inbox=without_pause(before.inbox),",
        "inbox=before.inbox,",
    ),
    Listed(
        f"{_HOST}/live_runs.py",
        "the commit of a run's end drops the terms of the Task (R19)",
        "terms=before.terms, realm=before.realm, form=before.form,",
        "realm=before.realm, form=before.form,",
    ),
    Listed(
        f"{_HOST}/live_runs.py",
        "an end of unknown outcome counts as stored (R5)",
        "if not await landed(self.parts.store, after, written):\n                return False",
        "await landed(self.parts.store, after, written)",
    ),
    Listed(
        f"{_HOST}/run.py",
        "a run takes up a record that is older than its own",
        "        if record.version < self.record.version:\n            return\n",
        "",
    ),
    Listed(
        f"{_HOST}/run.py",
        "a run whose Task another Host killed takes it for ended (R13)",
        'self.end("killed" if record.task.status == "cancelled" else "ended")',
        'self.end("ended")',
    ),
    Listed(
        f"{_HOST}/takeover.py",
        "a restart does not look at the back-off (R21)",
        "        if not self.backoff.over(latest):\n            return\n",
        "",
    ),
    Listed(
        f"{_HOST}/takeover.py",
        "a restart acquires a Task that has another owner by now (R1)",
        "            if before.owner != owned.owner:\n                return None\n",
        "",
    ),
    Listed(
        f"{_HOST}/takeover.py",
        "a restart does not count its attempt (R21)",
        "owner=owner, attempts=before.attempts + 1)\n            return after, [Event("
        'vocabulary.TASK_CLAIMED, {"by": self._parts.name})]',
        "owner=owner, attempts=before.attempts)\n            return after, [Event("
        'vocabulary.TASK_CLAIMED, {"by": self._parts.name})]',
    ),
    Listed(
        f"{_HOST}/inbox.py",
        "an older change of a grant replaces a newer one (R18)",
        'and entry["seq"] >= seq:',
        'and entry["seq"] < seq:',
    ),
    Listed(
        f"{_HOST}/inbox.py",
        "an answer is not bound to the question that the Task shows (R3)",
        'decision = {**decision, "digest": shown["digest"]}',
        "pass",
    ),
    Listed(
        f"{_LOOP}/budget_grants.py",
        "a child that has a grant gets another one (R18)",
        "    if child in shares.grants:\n        return shares.grants[child].amounts\n",
        "",
    ),
    Listed(
        f"{_LOOP}/budget_grants.py",
        "the grant of a child that runs is settled (R18)",
        "    if account is not None and not account.ended:\n        return None\n",
        "",
    ),
    Listed(
        f"{_LOOP}/budget_grants.py",
        "children are told of a changed grant before it is committed (R18)",
        "        await run.commit()\n        await tell(run)",
        "        await tell(run)\n        await run.commit()",
    ),
    Listed(
        f"{_LOOP}/tool_calls.py",
        "as many calls begin at once as may fail in all, whatever failed before",
        "room = min(room, max(limits.max_failures - spent.failures, 1))",
        "room = min(room, max(limits.max_failures, 1))",
    ),
    Listed(
        f"{_FILE}/liveness.py",
        "a host that left may join again (R14)",
        "            raise self._past_use(host)\n        used = name",
        "            pass\n        used = name",
    ),
    Listed(
        f"{_FILE}/liveness.py",
        "a host whose file has a lock in another process counts as dead (R14)",
        "        if not file.try_lock():\n            return True\n        self._gone.add(host)",
        "        self._gone.add(host)",
    ),
    Listed(
        f"{_FILE}/index.py",
        "a Task that changes hands without a change of status stays under the earlier holder",
        "if before.status is not entry.status or before.owner != entry.owner:",
        "if before.status is not entry.status:",
    ),
    Listed(
        f"{_FILE}/index.py",
        "a pruned child stays in the index by parent (R13)",
        "            self._let_go(task_id, _holder(entry))\n            self._orphan(entry)\n",
        "            self._let_go(task_id, _holder(entry))\n",
    ),
    Listed(
        f"{_FILE}/states.py",
        "a state's file is synced, its entry in the folder is not",
        "            file.sync()\n            directory.sync()",
        "            file.sync()",
    ),
)
