"""The runtime kinds that this command runs. It only controls Tasks of other kinds.

They are the runtimes and providers that the installed packages offer; see
`agentic_kernel_engine.discovery`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from agentic_kernel import CannotStart, InvalidValue

from .text import label

if TYPE_CHECKING:
    from agentic_kernel_engine.discovery import Found, ProviderEntry, RuntimeEntry

LOCAL: Final = "local"
"""The runtime kind of a conversation with the local model."""
LOCAL_TOOLS: Final = "local-tools"
"""The runtime kind of Tasks in which the local model calls tools."""
EXTRAS: Final = ("claude", "copilot", "gemini", LOCAL, "ollama", "openai")
"""The extras of this command that bring a runtime, for the remedy if one is not installed."""


@cache
def offered() -> Mapping[str, Found]:
    """The runtimes and providers of the installed packages, by name; nothing is imported."""
    from agentic_kernel_engine.discovery import PROVIDERS, RUNTIMES, found

    return found(RUNTIMES, PROVIDERS)


def names() -> list[str]:
    """The values of ``--runtime`` that work here; the default is the first, if it is installed."""
    usable = {name for name, each in offered().items() if not each.problem}
    return sorted(usable, key=lambda name: (name != LOCAL, name))


def check_runtime(given: str, app: str = "", kinds: Collection[str] = ()) -> str:
    """Return the name of a runtime that this command can use.

    Raises:
        InvalidValue: The package that offers it cannot be used.
        As `check_known`.
    """
    check_known(given, app, kinds)
    there = offered().get(given)
    if there is not None and there.problem:
        raise InvalidValue("--runtime", f"'{label(given, 60)}' cannot be used: {there.problem}")
    return given


def check_known(given: str, app: str = "", kinds: Collection[str] = ()) -> str:
    """Return the name of a runtime that a package offers, maybe after an installation.

    Args:
        app: The name of the person's app; empty if there is none.
        kinds: The kinds that the app serves.

    Raises:
        InvalidValue: No package offers it; the message has the nearest name, and all of them.
    """
    if given in EXTRAS or given in offered():
        return given
    from difflib import get_close_matches

    installed = names()
    near = get_close_matches(given[:60], [*kinds, *installed], 1)
    hint = f"did you mean {near[0]}? Use " if near else "use "
    own = ", ".join(map(label, sorted(kinds)))
    here = ", ".join(installed) or f"none, so install one first: {install(LOCAL)}"
    raise InvalidValue(
        "--runtime",
        f"'{label(given, 60)}' is not a runtime that is installed here; {hint}"
        + (f"{own}, which the app {label(app, 80)} serves; or {here}" if own else here),
    )


def runtime_of(kind: str) -> str:
    """The value of ``--runtime`` for Tasks of this kind."""
    return LOCAL if kind == LOCAL_TOOLS else kind


def taker(kind: str) -> str:
    """The remedy for a Task of this runtime kind that no process runs now."""
    if serves(kind):
        return "recover it"
    return f"only a Host that serves {kind!r} can run it; start one, or name yours with --app"


def elsewhere(kind: str) -> str:
    """The sentence that says which Host lets a Task of this kind go on."""
    return f"it goes on in a Host that serves {label(kind)}; start one if none runs"


def serves(kind: str) -> bool:
    """True if this command runs Tasks of this runtime kind, maybe after an installation."""
    return runtime_of(kind) in EXTRAS or runtime_of(kind) in offered()


def gives_tools(kind: str) -> bool:
    """True if Tasks of this kind have no tools here but those that this command gives them.

    The runtime of another package may have tools of its own.
    """
    from agentic_kernel_engine.discovery import PROVIDERS

    runtime = runtime_of(kind)
    if runtime in EXTRAS:
        return True
    there = offered().get(runtime)
    return there is not None and there.group == PROVIDERS


def entry_of(runtime: str) -> RuntimeEntry[object] | ProviderEntry[object]:
    """Load what an installed package offers as this runtime.

    Raises:
        CannotStart: No package offers it; the message says how to install it.
        Unusable: A package offers it, and it cannot be used.
    """
    from agentic_kernel_engine.discovery import ProviderEntry, RuntimeEntry

    there = offered().get(runtime)
    if there is None:
        remedy = f": {install(runtime)}" if runtime in EXTRAS else ""
        raise CannotStart(f"the {runtime} runtime is not installed{remedy}")
    entry = there.load()
    assert isinstance(entry, (ProviderEntry, RuntimeEntry))  # The groups have no others.
    return entry


def check_taken(runtime: str, **given: bool) -> None:
    """Refuse a flag that this runtime does not take.

    Args:
        given: The flags by their names, True if the person gave one.

    Raises:
        InvalidValue: The runtime does not take it.
        As `entry_of`.
    """
    wanted = [name for name, there in given.items() if there]
    if runtime == LOCAL or not wanted or (runtime in EXTRAS and runtime not in offered()):
        return
    takes = getattr(entry_of(runtime), "takes", wanted)  # A provider's Loop takes everything.
    for name in wanted:
        if name not in takes:
            raise InvalidValue(
                f"--{name.replace('_', '-')}", f"does not work with --runtime {runtime}; remove it"
            )


def check_limits(runtime: str, limits: Mapping[str, object], *, file: str) -> None:
    """Refuse limits of the settings that this runtime does not keep.

    Raises:
        InvalidValue: There is one.
        As `entry_of`.
    """
    if not limits or (runtime in EXTRAS and runtime not in offered()):
        return
    kept = getattr(entry_of(runtime), "limits", limits)  # A provider's Loop keeps all.
    for name in limits:
        if name not in kept:
            raise InvalidValue(
                file,
                f"limits.{name} is not kept by the runtime {runtime}; it keeps "
                f"{', '.join(kept) or 'none'}",
            )


def install(kind: str) -> str:
    """The command that installs what a runtime kind needs."""
    from agentic_kernel_engine.install import install as command

    return command(f"agentic-kernel-cli[{kind}]")
