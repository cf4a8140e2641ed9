"""The bounded loop: plan, authorize, execute, observe; and the data types that it works with.

One step goes from the decisions that wait to the durable write that ends it. Only a step with
effects or children makes further writes (7). `Loop.step` shows the order:

1. Decisions. The run acts on the inbox: an approval, an answer, new limits, a single step. R12: the
   step's commit consumes them, so a crash before it leaves them in the inbox.
2. Progress and limits. A stalled run gets a corrective message or ends. The run tells children of
   changed grants. R18: until a child knows that its grant was cut, the whole grant counts. So the
   run waits for the children before a limit ends it only because of that. A limit that is reached
   ends the run before it spends more.
3. Compaction. A summary may replace the first entries of the transcript. R15: the transcript is
   data in the Task's history, and the state holds only a cursor into it. Compaction appends the
   summary to the history and moves the cursor, so the state does not grow with the run. An entry
   reads the history after the cursor once.
4. Context: transcript, tools, goals, the budget that is left, and recalled memory. Before the run
   recalls, it writes the items of the last step into the memory.
5. Reservation and plan. R17: before each call a durable commit carries the most that the call may
   use up. Usually that is the commit of the step before, so the reservation costs no write. The
   real usage replaces it after the call. If a call fails, middleware may have it made again
   (`retries`). Before the next call a commit counts what the failed one used, and reserves again.
6. Authorization. The policy decides once about each action. An action that needs a person gets a
   digest of the canonical action and its place, and the Task pauses. A decision names that digest,
   so it fits this one action only, and it is used once. If middleware changes the arguments
   afterwards, the policy decides again; a call that a person approved is then refused.
7. Actions. Tool calls come first, as many as the limits leave. If one of them has an effect, a
   commit records the idempotency keys of these calls first: the effects are prepared. If a child
   gives room back for more calls, another commit prepares those. The key is made of the Task,
   the step, the index and the digest of the arguments, so it is the same after a crash. R1: only
   the owner can commit, so this commit also proves, just before the effect, that the Host still
   owns the Task.
   A delegation commits the child's id before it spawns the child (R13: a crash does not spawn it
   twice). R18: the same commit reserves the child's grant, a part of what the Task has left. A join
   waits for the child and passes the child's requests on to people. A pause takes effect during
   the wait. The step then settles the child: what it used counts, and the rest comes back.
8. Observation. The step records its observations and counts progress. The governor may propose
   items for the memory.
9. Commit. One checkpoint carries the state, the events, the consumed decisions and the reservation
   for the next call. A pause or a drain takes effect here (R6: a checkpoint is a safe point).

The `Ledger` holds all that the next commit writes: events, usage, changed limits, consumed
decisions. A substrate whose agent brings its own loop uses the ledger too.

A crash leaves the run at its last commit. The next entry finds there, if the crash came

- before the planner was called: a reservation, which counts as spent, because the call may have
  been made. It does not count if the same commit paused or released the Task;
- during the call, or after it and before a commit: the same. The planner is called again;
- while people decide: the plan and its digests. A decision in the inbox still fits;
- after the prepare: prepared effects without a settled outcome. A tool that reads or is idempotent
  is called again with the same key. For any other tool the observation is ``indeterminate``: a
  planner or a person has to find out what happened. Every prepared call counts as used, whatever
  ends the run, because the limits had room for it when it was prepared (R18);
- between the child's id and its spawn: the id and the grant. The same child is spawned again with
  the same grant, which is safe;
- between a child's end and the commit that settles it: the open grant. The run settles it then;
- while a child runs: the plan at hand with its finished observations. The run waits again;
- after the last answer, while memory is written: the end itself. The run ends in the same way, and
  the same items are written again under the same ids;
- after the step's commit: the next step, as if there had been no crash.
"""

from ..plans.accounts import USED, Shares
from ..plans.action import (
    Action,
    AskUser,
    CompleteGoal,
    Delegate,
    FinalAnswer,
    PushGoal,
    Schedule,
    Stop,
    Thought,
    ToolCall,
    digest,
)
from ..plans.decision import (
    ALLOW,
    ROUTES,
    Approvable,
    Decision,
    Route,
    deny,
    require_approval,
    stop,
)
from ..plans.ending import End, PlannerError, failed, stopped, unhandled
from ..plans.limits import Limits, Remaining, Spent, failed_too_often, unaffordable
from ..plans.observation import (
    HANDLER_ERROR,
    INDETERMINATE,
    MISSING_SCOPES,
    NO_THREAD,
    NOBODY_TO_ASK,
    OUTPUT_SCHEMA_FAILED,
    POLICY_DENIED,
    SCHEMA_VALIDATION_FAILED,
    SKIPPED,
    TIMEOUT,
    UNKNOWN_TOOL,
    Observation,
)
from ..plans.plan import LARGEST, NOTHING_USED, Delta, Plan, Usage
from ..plans.reasons import STOP_REASON, StopReason, refuse_notes
from ..plans.transcript import Entry, Notice, Summary, Transcript, Turn, UserMessage
from ..principal import Principal
from ..seams.planner import Context
from ..tools.call import key
from ..tools.registry import named_tools
from .continuation import CONTINUES, SESSION, continued, lineage, on_behalf
from .final_answer import Answer, AnswerForms
from .ledger import Ledger
from .loop import Loop
from .planner_calls import plan_of
from .replay import Outcome, Replay, outcome, replay
from .streamed_answers import LENGTH
from .streams import TurnText

__all__ = [
    "ALLOW", "CONTINUES", "HANDLER_ERROR", "INDETERMINATE", "LARGEST", "LENGTH", "MISSING_SCOPES",
    "NOBODY_TO_ASK", "NOTHING_USED", "NO_THREAD", "OUTPUT_SCHEMA_FAILED", "POLICY_DENIED", "ROUTES",
    "SCHEMA_VALIDATION_FAILED", "SESSION", "SKIPPED", "STOP_REASON", "TIMEOUT", "UNKNOWN_TOOL",
    "USED", "Action", "Answer", "AnswerForms", "Approvable", "AskUser", "CompleteGoal", "Context",
    "Decision", "Delegate", "Delta", "End", "Entry", "FinalAnswer", "Ledger", "Limits", "Loop",
    "Notice", "Observation", "Outcome", "Plan", "PlannerError", "Principal", "PushGoal",
    "Remaining", "Replay", "Route", "Schedule", "Shares", "Spent", "Stop", "StopReason", "Summary",
    "Thought", "ToolCall", "Transcript", "Turn", "TurnText", "Usage", "UserMessage", "continued",
    "deny", "digest", "failed", "failed_too_often", "key", "lineage", "named_tools", "on_behalf",
    "outcome", "plan_of", "refuse_notes", "replay", "require_approval", "stop", "stopped",
    "unaffordable", "unhandled",
]  # fmt: skip
