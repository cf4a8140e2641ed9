"""Host: how one stored Task is run, in one process among several, and which rule closes which hole.

The store is the only channel between processes. A record holds the whole state of a Task: its
snapshot, the substrate's state, the decisions that wait (the inbox), the owner, and two counters,
step and attempts. Every verb loads the record, decides, and commits if the record has not moved;
else it looks again (`change`). So a verb is right whichever Host runs the Task.

Dispatch
    1. The Host takes a slot (`slots`). R9: the slot is taken before anything is durable, so a full
       Host refuses and leaves no trace.
    2. The substrate may refuse the Task in `accept`. There is still no trace.
    3. An `Arrival` announces the run, so that the polling leaves the Task alone meanwhile.
    4. One insert stores the Task as running, with its owner and its first event. R2: an owner is
       the Host's random nonce plus the version at which it acquired the record, so no two are
       equal. R14: the Host has joined the store before, so its liveness is known.
    5. The run begins in an asyncio task of its own. R4: the insert is shielded from the caller's
       timeout. If an insert landed unnoticed, the polling finds it: the Host owns the Task and has
       no run for it (`Polling.restart_lost`).

The run is the only writer
    R1: each write of a run needs the version, the owner and the status running, and a terminal
    record refuses every write. If only the inbox has moved, the run writes again on top of it. If
    the owner has changed or the Task has ended, the run ends and never touches the store again. R7:
    one write at a time (`FifoLock`), and one way to unwind: the Host cancels the root asyncio task.

Commits and safe points
    `Job.commit` makes state, events and notes durable, together or not at all (R16: only the head
    and the new tails are written). R6: a commit never unwinds the run. A checkpoint is a commit and
    a safe point: a pause or a drain that waits takes effect in the same write. R12: a decision in
    the inbox is consumed by the commit that acts on it, so it is neither lost nor used twice. R15:
    the next entry goes on from the state and the history after a cursor. Every commit passes on the
    terms and the realm (R19: for whom, and within which limits) and the form of the state (R23).

Text in progress
    R20: what a run says is stored while it streams, by rounds of flushes for all runs of the Host
    (`Flushing`). A flush is a commit of the run with the same state, notes, inbox and attempts. It
    writes only the deltas at the head of the buffer, so no other event runs ahead of its state. The
    step moves (R5: a lost answer is settled by reading back). A run that commits, leaves or has
    ended is passed over. The wait between two rounds grows with their duration, so that flushes
    take at most a twentieth of the time. Each delta says its place in the text of the turn, and
    every reader joins deltas in the same way (`texts.Texts`).

How a run can stop
    Pause: the request waits in the inbox; the next checkpoint commits paused and unwinds. R10: a
    resume withdraws a pause that still waits; without a living owner the verb itself commits
    paused; and a run with a waiting pause is paused before it begins. A substrate can also pause
    its Task itself (`Job.pause`), until a moment at which a Host wakes it.
    Kill: the verb commits cancelled, then the Host cancels the run (R1: it can write no more). R11:
    the text in progress and the notes of a local run are kept, and of another run what it flushed.
    ``complete`` and ``fail`` from outside do the same, without the note of the text.
    End: R21: a result, `TaskFailed` or any other exception of the work ends the Task. The death of
    the process, a cancellation from outside, a ``KeyboardInterrupt`` or a store that cannot be read
    at entry ends only the attempt. The Host retries the write while the run owns the Task. An end
    that cannot be stored becomes ``engine/unstorable_end``. A result that comes too late is
    dropped, with an event (R10).
    Drain: each run lets go at its next safe point; its Task stays running, without an owner, and
    claimable (R9), or becomes paused. A run that reaches no safe point in time is cancelled, and
    its Task keeps its last commit.
    No unwinding: a run that ignores its cancellation is reported as abandoned and keeps its slot,
    and it can write no more (R7: kill and drain do not wait for it for ever).
    Crash: the owner stays in the record, but it is not alive any more.
    Lost answer of the store: the Host reads back. R5: the step advances only by the owner's
    commits, and the events of a write carry its owner or its act, so the Host sees if it landed.

Take-over and back-off
    Before a Host acquires a Task it asks if it may act for the Task's principal (R19) and if its
    substrate reads the form of the state (R23). If not, it writes nothing (`Admission`). The answer
    comes from foreign code, so the polling asks beside its looks, for each principal on its own.
    R14: `Store.claim` tests the owner's liveness and changes the owner in one atomic act. The new
    run enters the substrate with the state of the last commit, exactly as after a pause. Each
    claim, and each restart of a lost run, counts one attempt (R21); a commit with progress sets the
    counter back to 0. Before the second attempt a Host waits 0.1 seconds, then twice as long each
    time, at most 30 (`Backoff`). After ``max_attempts`` the Task is failed, because it may kill its
    workers.

How news travels
    R8: one call of the store per interval compares the versions of all Tasks that run here or have
    a waiter here (`Polling`). Notifications of the store, and the commits of this Host, only make
    the news faster (`News`). A waiter registers before it reads the store, so it misses no commit.
    ``wait`` returns the first wanted snapshot. ``stream`` reads the events after a cursor, each
    once and in order, until the Task is terminal. ``watch`` joins them with what a run of this Host
    emits, so that a reader has each event once (`Watching`). R3: a verb's receipt says
    ``changed`` only if its own commit won, and ``at_version`` answers one particular pause.

Parents and children
    R13: the parent commits the child's id before it spawns the child, so a crash spawns no second
    one, and a child that is stored already counts as spawned. A child uses its parent's slot (R9),
    so a parent and its child cannot block each other. A kill sweeps the children; a child also
    looks at its parent when it is entered, and the polling looks at parents elsewhere. If a child
    asks people for something, its parent pauses and passes the request on; a decision resumes both.
    If a process dies between two such writes, `Family.look_again` finds it from the records.
    R18: a family has one budget. The commit that announces a child grants it a part of what its
    parent has left, and the child keeps within this grant. Its account (`Host.account`) says what
    it used. That is counted once, when the parent settles the child; the rest goes back to the
    parent. A changed grant is posted to the child (`Host.regrant`). A child that must not begin any
    more is stored as cancelled (`Host.fence`), so that it cannot spend a grant that was given back.

One bad record
    R22: a record that cannot be read, or a Task whose handling raises, is logged once and hides no
    other Task (`complaints`). A kill of an unreadable record buries it.
"""
