"""Admission: which stored Tasks one Host may take, and for which principal (R19, R23).

A Host asks before it acquires a Task. If it may not take the Task, it writes nothing, and another
Host that may take it finds the Task as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentic_kernel import CannotStart, InvalidValue

from .. import edges, terms
from ..events import from_stored
from ..plans import vocabulary
from ..principal import NOBODY, Principal
from ..record import Record
from ..store import Store
from ..substrate import Acting, Limiting, Reading, Substrate
from ..terms import Terms
from ..waiting import field_text
from .complaints import remember
from .resolver import PrincipalResolver, Resolver

if TYPE_CHECKING:
    from ..plans.limits import Limits

_log = logging.getLogger(__name__)
REFUSED: Final = 2.0
"""Seconds for which the polling does not ask again about a principal that was refused."""
_FIRST_EVENTS: Final = 16
"""The events of an older Task among which its ``run.started`` is searched."""


class Binding(NamedTuple):
    """The principal of a Task that is being dispatched, and the record's fields that name it."""

    principal: Principal
    terms: bytes | None
    realm: str


def bound_to(
    principal: Principal,
    named: Principal,
    limits: dict[str, Any] | None = None,
    grant: dict[str, Any] | None = None,
) -> Binding:
    """The binding to a principal, under the name and the tenant of another one or the same."""
    given = Terms(named.name, named.tenant, limits, grant)
    return Binding(principal, given.encoded(), given.realm)


def inherited(
    parent: Record,
    principal: Principal,
    limits: Limits | Mapping[str, Any] | None,
    grant: Mapping[str, Any] | None,
) -> Binding:
    """The binding of a child, which acts for the principal in its parent's record.

    Args:
        principal: The principal of the parent's run.

    Raises:
        InvalidValue: A limit is not valid, or the parent's terms are damaged.
    """
    if parent.terms is None and limits is None and grant is None:
        return Binding(principal, None, parent.realm)
    above = terms.decoded(parent.terms)
    given = Terms(above.name, above.tenant, *_checked(limits, grant))
    return Binding(principal, given.encoded(), parent.realm)


def _checked(
    limits: Limits | Mapping[str, Any] | None, grant: Mapping[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Limits and a grant by name, as they are stored.

    Raises:
        InvalidValue: A limit or an amount is not valid.
    """
    if limits is None and grant is None:
        return None, None
    from ..plans.budget import checked_grant  # Loads the plans' data, which few Hosts need.
    from ..plans.limits import stated

    return None if limits is None else stated(limits), checked_grant(grant)


class Admission:
    """Decides for one Host which Tasks it may take, and for which principal it runs them.

    Args:
        substrate: Its own principal, if it is `Acting`, is the default of a dispatch. The forms of
            state that it reads, if it is `Reading`, limit what the Host takes.
        store: Read for the principal of a Task that an older version dispatched.
        realms: The realms whose Tasks the Host takes; None for all.
        acts_for: The resolver. Without one, the Host acts for the substrate's own principal and for
            those that were given to its own dispatches.
    """

    def __init__(
        self,
        substrate: Substrate | None,
        store: Store,
        realms: Collection[str] | None,
        acts_for: Resolver | None,
    ) -> None:
        acting: Acting | None = edges.optional(substrate, "substrate", Acting)
        reading: Reading | None = edges.optional(substrate, "substrate", Reading)
        self.realms = None if realms is None else _names(realms, "realms")
        if realms is not None and not self.realms:
            raise InvalidValue("realms", "is empty; name at least one, or leave it out for all")
        self._own = NOBODY if acting is None else acting.principal
        self.default: Binding | None = None
        """The binding of a dispatch without arguments; None if the resolver must be asked, or if
        the Host could not take such a Task again."""
        served = self.realms is None or self._own.tenant in self.realms
        if served and (acts_for is None or self._own.named):
            self.default = bound_to(self._own, self._own)
        limiting: Limiting | None = edges.optional(substrate, "substrate", Limiting)
        self._limits = _names(limiting and limiting.limit_names, "substrate.limit_names")
        self._reads = _names(reading and reading.reads, "substrate.reads")
        self._store = store
        self._resolver = None if acts_for is None else PrincipalResolver(acts_for)
        self._given: dict[tuple[str, str], Binding] = {}
        """By name and tenant: the bindings of the principals of this Host's own dispatches."""
        self._complained: dict[tuple[str, str], None] = {}
        self._refusals: dict[tuple[str, str], float] = {}
        """By principal: until when the polling does not ask for it again."""
        self._now = time.monotonic
        self._unreadable: dict[str, int] = {}
        """By Task: the step whose state the substrate could not read."""

    async def bind(
        self,
        principal: Principal | None,
        limits: Limits | Mapping[str, Any] | None,
        task_id: str,
        grant: Mapping[str, Any] | None = None,
    ) -> Binding:
        """The binding of a Task that this Host dispatches.

        Args:
            principal: The principal that the host's code gives; None for the substrate's own.
            limits: The Task's own limits, or None.
            grant: The part of its parent's budget that a child gets, or None (R18).

        Raises:
            InvalidValue: An argument has the wrong type, or a limit is not valid.
            CannotStart: The substrate does not keep a limit. Or this Host could not run the Task
                again after a pause or a crash: the principal's tenant is not among its realms, the
                resolver refuses the principal, or no principal was given and the resolver names
                none for such Tasks.
        """
        plain = limits is None and grant is None and self._resolver is None
        if plain and type(principal) is Principal:
            before = self._given.get((principal.name, principal.tenant))
            if before is not None and before.principal is principal:
                return before
        named = self._own if principal is None else principal
        if principal is None:
            principal = named
            if self._resolver is not None and not principal.named:
                found = await self._resolver.principal("", "")
                if found is None:
                    raise CannotStart(
                        "this Host has a resolver (acts_for), and it names no principal for a Task "
                        "that has none; pass principal= to the dispatch",
                        task_id,
                    )
                principal, named = found, NOBODY
        else:
            edges.instance(principal, "principal", Principal)
            if not principal.named and principal not in (NOBODY, self._own):
                raise InvalidValue(
                    "principal",
                    "has neither a name nor a tenant, so a later run of the Task could not find it "
                    "again; give it a name, e.g. 'user:42'",
                )
            who = principal.name, principal.tenant
            resolver = self._resolver if principal.named else None
            if resolver is not None and await resolver.principal(*who) is None:
                raise self._refused(task_id, *who)
        self._check_realm(named.tenant, task_id)
        given, granted = _checked(limits, grant)
        if given is not None:
            self._check_limits(given, task_id)
        who = named.name, named.tenant
        known = self._given.get(who)
        if known is None or known.principal is not principal:
            known = bound_to(principal, named)
            if named.named:
                remember(self._given, who, known)
        if given is None and granted is None:
            return known
        return bound_to(principal, named, given, granted)

    async def admit(self, record: Record) -> Principal:
        """The principal for which this Host runs a stored Task.

        Raises:
            CannotStart: The Host may not take the Task. A refusal because of a principal is logged
                once.
        """
        self._check_form(record)
        return await self.principal_of(record)

    async def principal_of(self, record: Record) -> Principal:
        """The principal of a stored Task that this Host need not be able to run.

        Raises:
            CannotStart: The Task is of a realm or a principal that this Host does not act for.
        """
        task_id = record.task.id
        self._check_realm(record.realm, task_id)
        try:
            bound = terms.decoded(record.terms)
            who = (bound.name, bound.tenant) if bound.bound else await self._of_older(record)
        except InvalidValue as damaged:
            raise CannotStart(f"its terms cannot be read: {damaged}", task_id) from None
        principal = await self._principal(*who)
        if principal is None:
            raise self._refused(task_id, *who)
        self._refusals.pop(who, None)
        return principal

    def turn_away(self) -> None:
        """End every question to the resolver with `HostClosed`, because the Host closes."""
        if self._resolver is not None:
            self._resolver.turn_away()

    def whose(self, record: Record) -> tuple[str, str]:
        """The name and the tenant in a record's terms; empty if there are none to be read."""
        with suppress(InvalidValue):
            bound = terms.decoded(record.terms)
            return bound.name, bound.tenant
        return "", ""

    def refused_lately(self, who: tuple[str, str]) -> bool:
        """True if this principal was refused a moment ago, so the polling need not ask again."""
        return bool(self._refusals) and self._now() < self._refusals.get(who, 0.0)

    def cannot_read(self, record: Record) -> None:
        """Take the Task no more until its state has changed: the substrate cannot read it (R23)."""
        remember(self._unreadable, record.task.id, record.step)

    def _check_limits(self, given: Collection[str], task_id: str) -> None:
        for name in given:
            if name not in self._limits:
                known = ", ".join(sorted(self._limits)) or "none"
                raise CannotStart(
                    f"the substrate of this Host does not keep the limit {name}; it keeps {known}; "
                    "leave the limit out, or run the Task on a Loop",
                    task_id,
                )

    def _check_realm(self, realm: str, task_id: str) -> None:
        if self.realms is not None and realm not in self.realms:
            raise CannotStart(
                f"its realm {realm!r} is not one of this Host's: "
                f"{', '.join(map(repr, sorted(self.realms))) or 'none'}; add it to realms",
                task_id,
            )

    def _check_form(self, record: Record) -> None:
        form, task_id = record.form, record.task.id
        if form and form not in self._reads:
            known = ", ".join(sorted(self._reads)) or "states without a form"
            raise CannotStart(
                f"its state has the form {form!r}, and the substrate of this Host reads {known}; "
                "run it on a Host of the version or the substrate that wrote it",
                task_id,
            )
        if self._unreadable and self._unreadable.get(task_id) == record.step:
            raise CannotStart(
                "the substrate of this Host cannot read its state; run it on the Host that wrote "
                "the state, or kill it",
                task_id,
            )

    async def _of_older(self, record: Record) -> tuple[str, str]:
        """The principal in the ``run.started`` of a Task without terms; empty if there is none.

        Versions before 0.2 stored no terms. A Task that has no state yet has started nothing, and a
        state with a form was written by a later version.
        """
        if record.terms is not None or record.state is None or record.form:
            return "", ""
        for event_id, text in await self._store.events(record.task.id, None, _FIRST_EVENTS):
            event = from_stored(event_id, text)
            if event.type == vocabulary.RUN_STARTED:
                who = event.data.get("principal")
                if isinstance(who, Mapping):
                    return field_text(who, "name"), field_text(who, "tenant")
                break
        return "", ""

    async def _principal(self, name: str, tenant: str) -> Principal | None:
        if self._resolver is not None:
            return await self._resolver.principal(name, tenant)
        if (name, tenant) == (self._own.name, self._own.tenant):
            return self._own
        given = self._given.get((name, tenant))
        return None if given is None else given.principal

    def _refused(self, task_id: str, name: str, tenant: str) -> CannotStart:
        whom = "a Task without a principal"
        if name or tenant:
            whom = f"{name!r} of tenant {tenant!r}" if tenant else f"{name!r}"
        remember(self._refusals, (name, tenant), self._now() + REFUSED)
        if (name, tenant) not in self._complained:
            remember(self._complained, (name, tenant), None)
            _log.warning(
                "task %r is left for another Host: this Host does not act for %s; give it "
                "acts_for= if it should (this is logged once)",
                task_id, whom,
            )  # fmt: skip
        return CannotStart(f"this Host does not act for {whom}; give it acts_for=", task_id)


def _names(given: Any, path: str) -> frozenset[str]:
    """Check a collection of names; None is an empty one.

    Raises:
        InvalidValue: It is one text, or no collection of texts.
    """
    if isinstance(given, str):
        raise InvalidValue(path, f"is the text {edges.came(given)}; give a collection of texts")
    return frozenset() if given is None else edges.names(given, path)
