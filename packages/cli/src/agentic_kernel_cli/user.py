"""The user of this process, whom the command acts for."""

from __future__ import annotations

import os
import pwd

from agentic_kernel_engine import Principal, Record
from agentic_kernel_engine.terms import decoded

from .grants import LeftAlone


def process_user() -> str:
    """The name of the user that this process runs as; environment variables do not change it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # A user without a name, as in some containers.
        return f"uid {os.getuid()}"


def myself() -> Principal:
    """The principal of this command's Tasks."""
    return Principal(process_user())


def acts_for(name: str, tenant: str) -> Principal | None:
    """The user of this process for its own Tasks, and for those that name no principal."""
    me = myself()
    return me if (name, tenant) in ((me.name, me.tenant), ("", "")) else None


def check_mine(record: Record) -> None:
    """Refuse to run a Task that acts for another principal.

    Raises:
        LeftAlone: It names another principal than the user of this process.
    """
    terms = decoded(record.terms)
    if acts_for(terms.name, terms.tenant) is None:
        whom = terms.name if not terms.tenant else f"{terms.name} of tenant {terms.tenant}"
        raise LeftAlone(
            f"it acts for {whom!r}, and this command runs as {process_user()!r}; run it as that "
            "user, or on a Host that acts for it",
            record.task.id,
        )
