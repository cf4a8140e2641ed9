"""LoopRun: the Loop's data about one run of a Task between two commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .. import events as host_events
from ..cursor import Cursor
from ..events import Event
from ..faults import report
from ..host.job import Job
from ..plans import vocabulary
from ..plans.accounts import Shares
from ..plans.limits import Limits
from ..plans.plan import Usage
from ..plans.reasons import STOP_REASON, WAITING_FOR
from ..plans.transcript import Transcript, UserMessage, read
from ..texts import Texts
from .final_answer import Answer
from .ledger import Clock, Ledger
from .state import FORM, VERSION, WITHOUT_SHARES, State, load
from .streams import TurnText

if TYPE_CHECKING:
    from ..plans.ending import End
    from ..seams.delegation import Metering
    from ..seams.memory import Scope
    from ..tools.registry import ToolRegistry


class LoopRun(Ledger[State]):
    """The ledger of a run of the Loop, its transcript, and the actions due after the current step.

    Args:
        job: The Host's handle on the Task.
        limits: The configured limits; limits that were changed on the running Task replace them.
        clock: Measures how long the run works.
        compacts: True if the transcript may be compacted: the run then notes where it may be cut.
    """

    __slots__ = (
        "after", "answer", "delegation", "ending", "instructions", "known", "opened", "opening",
        "options", "refused", "scope", "tools", "transcript", "turn_text",
    )  # fmt: skip

    def __init__(self, job: Job, limits: Limits, clock: Clock, *, compacts: bool) -> None:
        state = State(WITHOUT_SHARES) if job.state is None else load(job.state)
        super().__init__(job, state, limits, clock)
        self.opening = UserMessage(self.task.instructions)
        self.transcript = Transcript([self.opening])
        self.ending: Any = None
        """The `End` to raise when this step is recorded; None for none."""
        self.after: Callable[[], Awaitable[None]] | None = None
        """Pauses the Task when this step is recorded; None for none."""
        self.answer: Answer
        """The form of the final answer; set at entry."""
        self.tools: ToolRegistry
        """The tools that may be called, before the policy's `visible`; set at entry."""
        self.instructions: Sequence[str] = ()
        """The instructions of the capabilities of the Task's Agent."""
        self.options: Mapping[str, Any] = {}
        """The options of the planner's answers that these capabilities give."""
        self.scope: Scope | None = None
        """The scope of the Task's memory; None until the first use."""
        self.known: Usage | None = None
        """The most that the planner's call under way has used up so far; None if that is unknown.
        """
        self.delegation: Metering | None = None
        """The place of the children of the Loop's own Delegation, if it meters; set at entry."""
        self.opened: set[str] | None = None
        """The children with an open grant that got it in this entry of the run."""
        self.refused = ""
        """The reason, for the planner, why no part of its answer is done; "" if it is done."""
        self.turn_text: TurnText | None = None
        """The streamed text of the turn in progress; None before its first piece."""
        if compacts:
            self.landed = self._note_cut

    def shares(self) -> Shares:
        if self.state.shares is None:
            self.job.tag(FORM)
            self.state.version = VERSION
        return super().shares()

    @property
    def begun(self) -> int:
        at_hand = self.state.at_hand
        return 0 if at_hand is None else at_hand.begun()

    def leaving(self) -> bool:
        """True if the run must not go on waiting for its children."""
        return self.job.stopping or self.out_of_time or self.reallotted

    async def enter(self) -> bool:
        """Read the history after the cursor, once (R15); settle the last reservation (R17).

        A reservation counts as spent if its call may have been made. The call was not made if the
        commit with the reservation also paused or released the Task. The next commit removes the
        notes of the pause; the run asks again for everything that it still waits for.

        Returns:
            True if this is the Task's first entry.
        """
        state = self.state
        if self.job.fresh:
            return True
        if self.task.metadata.get(STOP_REASON) is not None:
            self.job.note(STOP_REASON, None)
        history = await self.job.history(state.cursor)
        self.transcript = read(history, [self.opening])
        texts = Texts(history)
        if left := texts.open():
            self.turn_text = TurnText(self.job, left)
        if _told_more(history):
            state.said = ""  # The answer to come is another one.
        elif left and state.at_hand is None and not state.said:
            state.said = texts.text()  # The run did not end at a pause.
        if self.job.state is None:
            return True
        if state.waiting is not None:
            self.job.note(WAITING_FOR, None)
        if state.reserved is not None:
            if self.job.attempts > 1 or not _let_go(history):
                self.spend(state.reserved)
                self.record(vocabulary.RUN_ENTERED, forfeited=msgspec.to_builtins(state.reserved))
            # The next call is reserved by a commit of this entry, which counts the attempt. The
            # history alone would still say that the run was let go, if that call never ended.
            state.reserved = None
        return False

    def log(self, end: End) -> None:
        """Log the bug that ends the run, if one does, with the step in which it happened."""
        if end.fault is not None:
            report(end.fault, self.task.id, self.state.step, end.where)

    def tell(self, type: str, text: str, **data: Any) -> None:
        """Record a text that the planner reads."""
        self.record(type, text=text, **data)
        self.transcript += read([Event(type, {"text": text, **data})])

    def _note_cut(self, cursor: Cursor) -> None:
        if self.state.at_hand is None:
            self.transcript.may_be_cut(cursor)


def _told_more(history: list[Event]) -> bool:
    """True if the planner was told more after the last piece of the answer in progress."""
    for event in reversed(history):
        if event.type == host_events.TASK_RESUMED and "extra" in event.data:
            return True
        if event.type == host_events.RUN_DELTA:
            return False
    return False


def _let_go(history: list[Event]) -> bool:
    """True if the last commit of the run also paused or released the Task."""
    version, let_go = 0, False
    for event in history:
        assert event.id is not None
        if event.type in vocabulary.LOOP_EVENTS:
            version, let_go = event.id[0], False
        elif event.type in (host_events.TASK_PAUSED, host_events.TASK_RELEASED):
            let_go = let_go or event.id[0] == version
    return let_go
