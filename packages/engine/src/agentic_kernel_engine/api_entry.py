"""The entry of a provider on the engine's skeleton, and its checks of key, server and models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .checks import Check, key_check, server_check
from .discovery import NoOptions, ProviderEntry
from .listing import models_check

if TYPE_CHECKING:
    from .providers import APIPlanner


def api_entry(
    planner: type[APIPlanner],
    summary: str,
    *,
    make: Callable[[str, Any], APIPlanner] | None = None,
    options: type[Any] = NoOptions,
) -> ProviderEntry[Any]:
    """Return the entry of a provider whose planner and client say all that its checks need.

    Args:
        planner: The class of its planner; see `SDKClient` for the address and the keys.
        summary: One line for people.
        make: Makes the planner of a model from the options; None if the model is enough.
        options: A dataclass; see `read_options`.
    """
    client, impl = planner.client, planner.impl
    where = client.usual, client.address_variable

    async def checks() -> Sequence[Check]:
        made = [key_check(f"{impl} key", *client.key_variables)] if client.key_headers else []
        made.append(await server_check(f"{impl} server", *where))
        if client.models:
            keys, headers = client.key_headers or None, client.models_headers
            asked = models_check(
                f"{impl} models", *where, client.models, keys=keys, headers=headers
            )
            made.append(await asked)
        return made

    def made_of(model: str, _: Any) -> APIPlanner:
        return planner(model)  # type: ignore[call-arg]

    return ProviderEntry(make=make or made_of, options=options, checks=checks, summary=summary)
