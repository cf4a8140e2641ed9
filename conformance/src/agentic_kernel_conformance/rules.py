"""The rules that the contracts test, and the error that reports a broken rule.

A contract test carries ``@pytest.mark.rule(name)`` with a name from `RULES`. ``clause1``, ``C1`` to
``C7`` and ``edges`` are the Concurrency Contract; ``R…`` are the rules of hosts and stores; each
other name stands for a part of a port's documented behaviour.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name in reports, its title, and what it asks for."""

    name: str
    title: str
    asks: str

    @property
    def page(self) -> str:
        """The page that explains the rule, in the repository; `explain` prints it anywhere."""
        return f"docs/rules/{self.name.lower()}.md"


_ALL = (
    Rule("kit", "the suite is whole", "fixtures as documented, and no contract test overridden"),
    Rule(
        "clause1",
        "Tasks do not affect each other",
        "a Task that hangs, fails or is killed delays and changes no other",
    ),
    Rule("C1", "closed mutators", "nothing but the six verbs changes a Task; reading never does"),
    Rule(
        "C2",
        "mutators serialise",
        "concurrent verbs on one Task act one after the other: none is lost, none acts twice",
    ),
    Rule(
        "C3",
        "atomic",
        "every snapshot is legal on its own: a transition shows with all its fields or not at all",
    ),
    Rule("C4", "readers do not wait", "no reader waits for a mutator, and no mutator for a reader"),
    Rule(
        "C6",
        "read your writes",
        "after a mutator returns, its caller reads that version or a later one",
    ),
    Rule("C7", "happens-before", "what one observer sees of a Task never runs backwards"),
    Rule(
        "edges",
        "edge cases",
        "every verb is accepted; a failed one leaves no trace; a terminal Task never changes; "
        "stamps come in the commit of their transition",
    ),
    Rule("table", "the state table", "every mutation in every status does what the table says"),
    Rule("notes", "notes", "implementations add scoped notes only, and input stays as it came in"),
    Rule("time", "time", "stamps are aware, in UTC, and never run backwards"),
    Rule("alias", "nothing aliased", "what is stored shares nothing mutable with any caller"),
    Rule("find", "pages", "filters, ascending ids, exclusive `after` and `limit` hold exactly"),
    Rule("values", "values", "what is accepted comes back equal; what is not is refused by path"),
    Rule("ids", "opaque ids", "an id is compared by code point, never interpreted"),
    Rule("durable", "durability", "what was acknowledged is there when the store is opened again"),
    Rule("R1", "fenced writes", "a commit needs version and owner, and never follows an end"),
    Rule("R2", "owners", "an owner is the host's nonce and the version at which it acquired"),
    Rule("R5", "settled writes", "a cancelled write has landed whole, or not at all, when it ends"),
    Rule("R8", "noticing", "one `changed` tells exactly which records moved"),
    Rule("R14", "liveness", "a claim tests the owner's liveness and takes over in one atomic act"),
    Rule("R15", "events", "events are ordered by (version, index) and kept with their commit"),
    Rule("R16", "small steps", "a commit writes its step, and not what was given or said before"),
    Rule(
        "R20",
        "text in progress",
        "text is stored while it is said: others read it meanwhile, and a kill by them keeps it",
    ),
    Rule(
        "R22",
        "one bad record",
        "a record that cannot be read hides no other, is listed, and can be buried",
    ),
    Rule("observer", "observing", "an observer takes every event, and a fault stays inside it"),
    Rule(
        "plan",
        "planning",
        "every context gets one plan that can be stored, or a `PlannerError` with a code of its "
        "own",
    ),
    Rule(
        "budget",
        "usage",
        "a call says what it used up, in numbers that add up and never above its worst case",
    ),
    Rule("context", "reading only", "a question and its context are read, and never changed"),
    Rule("apart", "calls apart", "calls at the same time give what each of them gives alone"),
    Rule("unwind", "unwinding", "a call that is given up ends at once and leaves nothing running"),
    Rule("decide", "deciding", "every action gets a decision, whatever is in it"),
    Rule("visible", "hidden tools", "a tool that is hidden from the planner is not allowed either"),
    Rule(
        "schemas",
        "schemas",
        "what does not fit is refused before the tool is entered, and what comes back fits",
    ),
    Rule(
        "outcome",
        "outcomes",
        "a call that goes well gives a result, and one that does not says so with a code",
    ),
    Rule(
        "effects",
        "declared effects",
        "a tool has no effects but those that it declares, and no effect twice if it says so",
    ),
    Rule(
        "once",
        "effects once",
        "an effect happens once, whenever the process dies, or the record calls it indeterminate",
    ),
    Rule(
        "progress",
        "progress kept",
        "every step is done, in order, and a step that was committed is never done again",
    ),
    Rule(
        "result",
        "the same result",
        "a Task that was interrupted ends as one that was not, by its author's comparison",
    ),
    Rule(
        "output",
        "output kept",
        "output from before a pause, a crash, a take-over or a kill can be read afterwards",
    ),
    Rule(
        "extras",
        "extras heard",
        "the work hears each extra once and in order, or no extra changes anything",
    ),
    Rule(
        "safe",
        "safe points",
        "a pause takes effect within the declared number of steps",
    ),
    Rule(
        "held",
        "the event loop",
        "no call holds the event loop, and no substrate for longer than it declares",
    ),
    Rule(
        "clean",
        "nothing left behind",
        "a Task that ended leaves no process, thread, socket, asyncio task or file behind",
    ),
    Rule(
        "small",
        "small states",
        "the state that a run commits is small, and grows with history no more than declared",
    ),
    Rule(
        "memory",
        "remembering",
        "an item is live from when it is proposed until it is superseded or forgotten, and never "
        "again",
    ),
    Rule("scopes", "scopes", "what is in one scope is neither seen nor changed from another"),
    Rule(
        "recall",
        "recalling",
        "a query finds live items only, best first, no more than it asks for, and the same again",
    ),
    Rule(
        "export",
        "exporting",
        "what is exported is all that is known, and what is restored is all of it or nothing",
    ),
    Rule(
        "approvals",
        "asking people",
        "a decision is asked for once, however often it is told, and only while it is wanted",
    ),
    Rule(
        "admit",
        "giving work",
        "who may give work to whom follows from the two Tasks alone, before anything is written",
    ),
    Rule(
        "children",
        "parents and children",
        "a child is started once, is known to its parent alone, and ends with it",
    ),
    Rule(
        "join",
        "waiting for children",
        "a child is waited for until it has ended or asks people, and is left alone otherwise",
    ),
    Rule(
        "tell",
        "telling children",
        "a child is told all that was decided before it goes on, and may be told it again",
    ),
    Rule(
        "compact",
        "shortening",
        "a compactor answers every transcript by its content alone, with a cut that can be made or "
        "with none",
    ),
    Rule(
        "govern",
        "keeping",
        "a governor proposes what can be stored, and to keep an item again changes nothing",
    ),
    Rule(
        "repertoire",
        "capabilities",
        "an Agent has the instructions and tools of its capabilities, in their order; anything "
        "else is refused",
    ),
    Rule(
        "batch",
        "running a batch",
        "each call of a batch runs once, beside others only if it may, and its observation has its "
        "place",
    ),
    Rule(
        "hooks",
        "changing calls",
        "a hook takes every call, and gives what its place in the run can use",
    ),
    Rule(
        "fits",
        "checking values",
        "a check accepts no value that does not fit, and says why in a message for the model",
    ),
)

RULES: Final = {rule.name: rule for rule in _ALL}
"""Every rule by its name."""


class RuleError(AssertionError):
    """An implementation broke a rule of its contract.

    Attributes:
        rule: The broken rule.
        seen: The observation that shows it.
    """

    def __init__(self, rule: Rule, seen: str) -> None:
        self.rule = rule
        self.seen = seen
        super().__init__(
            f"rule {rule.name} ({rule.title}) is broken\n"
            f"  seen:  {seen}\n"
            f"  asked: {rule.asks}\n"
            f"  see:   agentic-kernel-conformance explain {rule.name}"
        )


class KitError(RuntimeError):
    """The kit or a process of the kit failed, so a test has no finding about any rule."""


def broken(rule: str, seen: str) -> RuleError:
    """Return the error that reports ``rule`` as broken; the caller raises it."""
    return RuleError(RULES[rule], seen)


def expect(holds: bool, rule: str, seen: str) -> None:
    """Report ``rule`` as broken unless the condition holds."""
    __tracebackhide__ = True  # a traceback ends in the test
    if not holds:
        raise broken(rule, seen)


E = TypeVar("E", bound=BaseException)


class Refusal(Generic[E]):
    """The exception that `refused` caught; ``error`` is set when the block has ended."""

    error: E


@contextmanager
def refused(rule: str, error: type[E] | tuple[type[E], ...], doing: str) -> Iterator[Refusal[E]]:
    """Expect that the block raises ``error``; report ``rule`` as broken if it does not."""
    __tracebackhide__ = True
    caught = Refusal[E]()
    wanted = error if isinstance(error, tuple) else (error,)
    names = " or ".join(kind.__name__ for kind in wanted)
    try:
        yield caught
    except wanted as raised:
        caught.error = raised
        return
    except RuleError:
        raise
    except Exception as other:
        raise broken(rule, f"{doing} raised {other!r:.200} and not {names}") from other
    raise broken(rule, f"{doing} was accepted, and not refused with {names}")


@asynccontextmanager
async def in_time(rule: str, seconds: float, doing: str) -> AsyncIterator[None]:
    """Cancel the block and report ``rule`` as broken if it takes longer than ``seconds``."""
    __tracebackhide__ = True
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise broken(rule, f"{doing} did not end within {seconds:g} s") from error


@contextmanager
def accepted(rule: str, doing: str) -> Iterator[None]:
    """Report ``rule`` as broken if the block raises an exception that means a refusal."""
    __tracebackhide__ = True
    try:
        yield
    except (LookupError, ValueError, TypeError, RuntimeError, OSError) as error:
        raise broken(rule, f"{doing} raised {error!r:.200}") from error
