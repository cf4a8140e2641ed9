"""ProviderRuntime: a Host whose Loop asks a model of a provider; APIRuntime makes the planner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, TypedDict

from agentic_kernel import InvalidValue

from .. import edges, values
from ..host.host import HostOptions
from ..inputs import Inputs
from ..loop.ledger import Clock
from ..loop.loop import Loop
from ..plans.limits import Limits
from ..principal import Principal
from ..seams.capabilities import CapabilityRegistry
from ..seams.compactor import Compactor
from ..seams.delegation import Delegation
from ..seams.memory import Memory
from ..seams.memory_governor import MemoryGovernor
from ..seams.middlewares.fallback import Fallback
from ..seams.middlewares.retry import Retry
from ..seams.policy import Policy
from ..store import Store
from ..tools.output_type import OutputType
from ..tools.registry import ToolRegistry
from ..tools.scheduler import ToolScheduler
from ..tools.schema import Validator
from ..tools.tool import Tool, Tools
from .edges import check_name
from .failures import TRANSIENT
from .fallbacks import fallbacks, falling_back
from .keywords import UnknownKeyword
from .planner import APIPlanner
from .provider_planner import Closing, ProviderPlanner
from .ready import ReadyRuntime

LONGEST_PAUSE: Final = 120.0
"""The longest wait, in seconds, that a server may ask for before a call is repeated."""

Toolset = ToolRegistry | Sequence[Tool | Callable[..., Any]]
"""The forms in which a Loop takes its tools."""


class LoopOptions(TypedDict, total=False):
    """The options that a ready-made runtime passes to its `Loop`; see there.

    ``timer`` is the Loop's ``clock``, because ``clock`` is that of the Host.
    """

    policy: Policy | None
    limits: Limits | None
    middleware: Sequence[Any]
    scheduler: ToolScheduler | None
    parallel_tools: bool
    on_deny: str
    on_non_progress: str
    capabilities: CapabilityRegistry | None
    delegation: Delegation | None
    compactor: Compactor | None
    memory: Memory | None
    governor: MemoryGovernor | None
    seed_memory: Sequence[str]
    output_schema: Mapping[str, Any] | None
    output_type: Any
    principal: Principal
    should_cancel: Callable[[], bool] | None
    validator: Validator | None
    timer: Clock
    ids: Callable[[], str]


class RuntimeOptions(LoopOptions, HostOptions, total=False):
    """The options of every ready-made runtime beside its model; see `Loop` and `Host`.

    A call with a transient failure (`failures.TRANSIENT`) is repeated, two times at most, and only
    if the server asks for a wait of at most `LONGEST_PAUSE`. A `Retry` in ``middleware`` replaces
    that, and an empty ``middleware`` turns it off; other middleware does not.
    """

    fallback: Sequence[Any]
    """Names of models, or planners, that are asked in this order if the model has failed, after the
    repetitions; see `fallbacks.KINDS`. The runtime closes the planners."""


class ReadyOptions(RuntimeOptions, total=False):
    """The keyword arguments of every `APIRuntime` beside those of its planner."""

    tools: Toolset
    """Tools that the model may call."""
    runtime_kind: str
    """The kind of the Tasks that it serves; by default the planner's ``impl``."""


class ProviderRuntime(ReadyRuntime):
    """A Runtime and a Query for Tasks of one kind, which a model of a provider works on.

    Args:
        planner: The planner, which is closed with the Host.
        runtime_kind: The kind of the Tasks that this Host dispatches and claims.
        tools: See `Loop`.
        store: See `Host`.
        **options: See `RuntimeOptions`.
    """

    loop_type: ClassVar[type[Loop]] = Loop
    """The class of its Loop."""

    def __init__(
        self,
        planner: ProviderPlanner,
        runtime_kind: str,
        tools: Toolset,
        store: Store | None,
        options: RuntimeOptions,
    ) -> None:
        loop, host = parted(options, LoopOptions)
        others = fallbacks(planner, host.pop("fallback", ()))
        values.check_id(runtime_kind, "runtime_kind")
        check_name(runtime_kind, "runtime_kind")
        given = tuple(edges.several(loop.get("middleware", ()), "middleware", "middlewares"))
        wanted = bool(given) or "middleware" not in loop
        if wanted and not any(isinstance(each, Retry) for each in given):
            loop["middleware"] = (*given, patient(planner.impl))
        if others:
            before = tuple(loop.get("middleware", ()))
            loop["middleware"] = (*before, falling_back(planner, others))
        middleware = loop.get("middleware", ())
        if isinstance(planner, APIPlanner) and any(isinstance(m, Fallback) for m in middleware):
            planner = planner.with_fallback()
        self.planner = planner
        held = [edges.optional(each, "planner", Closing) for each in (planner, *others)]
        self._to_close: list[Closing] = [each for each in held if each is not None]
        if "timer" in loop:
            loop["clock"] = edges.timer(loop.pop("timer"), "timer")
        self._loop = self.loop_type(planner, tools, **loop)
        self._output_type = self._loop.answer_forms.output_type
        super().__init__(self._loop, store, runtime_kinds=[runtime_kind], **host)

    async def close(self) -> None:
        """Close the Host, and then the clients of the planners.

        Raises:
            StoreError, WrongEventLoop: As `Host.close`. In a wrong event loop no client is closed.
        """
        self._check_event_loop()
        try:
            await super().close()
        finally:
            for each in self._to_close:
                await each.close()

    def _add_tool(self, made: Tool) -> None:
        registry = self._loop.tools
        if not isinstance(registry, Tools):
            raise InvalidValue("tool", "the tools are a registry of your own; add the tool there")
        self._loop.tools = Tools(*registry.tools(), made)

    def _expect(self, task_id: str, wanted: OutputType[Any] | None) -> None:
        self._loop.answer_forms.expect(task_id, wanted)


class APIRuntime(ProviderRuntime):
    """A `ProviderRuntime` that makes its own planner.

    Reading and controlling Tasks needs no key and no server; dispatching a Task does.

    Args:
        model: Name of the model that works on the Tasks; see `asks`.
        store: Store of the Tasks; None keeps them in memory.
        options: The keywords of its planner, and `ReadyOptions`.

    Raises:
        InvalidValue: A value is not valid; the error names it.
        TypeError: There is no such keyword.
    """

    asks: type[Any]
    """The class of its planner, which takes the model and its own keywords."""
    inputs: Inputs
    """The inputs that it takes."""

    def __init_subclass__(cls) -> None:
        cls.inputs = cls.asks.inputs

    def __init__(self, model: Any, store: Store | None, options: Mapping[str, Any]) -> None:
        rest, mine = parted(options, RuntimeOptions)
        kind, tools = mine.pop("runtime_kind", self.asks.impl), mine.pop("tools", ())
        try:
            planner = self.asks(model, **mine)
        except UnknownKeyword as error:
            known = {*error.known, *ReadyOptions.__annotations__, "store"}
            raise UnknownKeyword(type(self).__name__, error.name, known) from None
        super().__init__(planner, kind, tools, store, rest)


def parted(options: Mapping[str, Any], form: type) -> tuple[Any, dict[str, Any]]:
    """Return the keywords that a TypedDict has, and the rest."""
    known: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in options.items():
        (known if name in form.__annotations__ else rest)[name] = value
    return known, rest


def patient(impl: str, kinds: Collection[str] = TRANSIENT) -> Retry:
    """A `Retry` that repeats a call after a transient failure, two times at most."""
    codes = [f"{impl}/{kind}" for kind in kinds]
    return Retry(codes, times=2, longest=LONGEST_PAUSE)
