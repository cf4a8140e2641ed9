"""AnswerOptions: the limits and sampling of an answer, which an Agent and a Task may override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from agentic_kernel import CannotStart, InvalidValue, Task

from .. import edges
from ..inputs import Inputs
from ..plans.limits import Limits
from ..plans.transcript import Turn
from ..seams.planner import Context
from .attachments import images_of
from .edges import check_name
from .sampling import check_effort, check_fraction, check_seed, check_tokens, stops_of

UNDER_A_LIMIT: Final = 4096
"""The most tokens of one answer if `AnswerOptions.max_tokens` is None and a limit needs a bound."""
FURTHER: Final = ("seed", "top_p", "stop", "effort")
"""The options that only some APIs have."""


def loop_inputs(
    scope: str, images: str, answers: type[AnswerOptions] | None = None, documents: str = ""
) -> Inputs:
    """The inputs of a Runtime that is a `Loop` around a planner with `AnswerOptions`.

    Args:
        scope: See `Inputs`.
        images: See `Inputs`.
        answers: The planner's own kind of `AnswerOptions`, if it has one.
        documents: See `Inputs`.
    """
    return Inputs(
        scope=scope,
        options=(answers or AnswerOptions).names(),
        agent=True,
        session=True,
        continues=True,
        images=images,
        documents=documents,
        limits=Limits.__struct_fields__,
        tools=True,
        agents=True,
        schema=True,
    )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Limits and sampling of one answer.

    A Task overrides each by ``<impl>/<name>`` in its metadata, and an Agent by the options of its
    capabilities (`seams.Repertoire`). The Task's value counts before the Agent's.

    Raises:
        InvalidValue: A value is out of range or of the wrong type, or the API has no such option;
            it is named.
    """

    takes: ClassVar[tuple[str, ...]] = ()
    """Those of `FURTHER` that the API has."""
    lacking: ClassVar[str] = "is no option of this API; leave it out"
    """The message about one of `FURTHER` that the API does not have."""
    most_seed: ClassVar[int] = 2**31 - 1
    """The largest seed that the API takes."""
    most_stops: ClassVar[int] = 4
    """The most texts in `stop` that the API takes."""
    efforts: ClassVar[tuple[str, ...]] = ()
    """The API's words for `effort`."""

    max_tokens: int | None = None
    """The most tokens of one answer, reasoning included; an answer that reaches it is a failure.
    None for the model's own limit, or `UNDER_A_LIMIT` if the run limits output or cost."""
    temperature: float | None = None
    """None for the vendor's default; some models accept no other."""
    system: str | None = None
    """Text that the model gets before everything else."""
    tool_choice: str = "auto"
    """``auto``, ``none``, ``required``, or the name of the function that the first answer must
    call. Only the first answer is forced, because a model that must always call never ends."""
    seed: int | None = None
    """The seed of the sampling: equal requests then get equal answers, as far as the vendor can do
    so. None for a random one."""
    top_p: float | None = None
    """The part of the probability that tokens are sampled from; None for the vendor's default."""
    stop: str | Sequence[str] | None = None
    """Texts at which an answer ends, without the text itself; stored as a tuple."""
    effort: str | None = None
    """The effort of the model's thinking, in the API's words; None for the model's default."""

    def __post_init__(self) -> None:
        check_tokens(self.max_tokens, "max_tokens")
        check_fraction(self.temperature, "temperature", 0, 2)
        if self.system is not None:
            edges.text(self.system, "system")
        check_name(self.tool_choice, "tool_choice")
        for name in FURTHER:
            if name not in self.takes and getattr(self, name) not in (None, ()):
                raise InvalidValue(name, self.lacking)
        check_seed(self.seed, self.most_seed)
        check_fraction(self.top_p, "top_p", 0, 1)
        object.__setattr__(self, "stop", stops_of(self.stop, self.most_stops))
        check_effort(self.effort, self.efforts)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the options that the API has."""
        return ("max_tokens", "temperature", "system", "tool_choice", *cls.takes)

    def accept(self, task: Task, impl: str) -> None:
        """Refuse a Task whose options, or whose images, are not valid.

        Raises:
            CannotStart: An option or an image is not valid; the message names it.
        """
        try:
            self.of(task, impl)
            images_of(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse the options of an Agent that the API does not have, or that are not valid.

        Raises:
            InvalidValue: The path is ``options.<name>``.
        """
        self._with_agents(options)

    def of(self, task: Task, impl: str, agents: Mapping[str, Any] | None = None) -> AnswerOptions:
        """These options with those of the Task's Agent, and the overrides of its metadata.

        Args:
            task: The Task.
            impl: The first part of its keys.
            agents: The options of its Agent.

        Raises:
            InvalidValue: An option there is not valid; its key is named.
        """
        scope, names = f"{impl}/", self.names()
        asked = {
            name: value
            for key, value in task.metadata.items()
            if key.startswith(scope) and (name := key.removeprefix(scope)) in names
        }
        own = self._with_agents(agents) if agents else self
        if not asked:
            return own
        try:
            return replace(own, **asked)
        except InvalidValue as error:
            key = f"{impl}/{error.path}"
            raise InvalidValue(f"Task.metadata[{key!r}]", error.reason) from None

    def _with_agents(self, options: Mapping[str, Any]) -> AnswerOptions:
        known = (*self.names(), *FURTHER)
        for name in options:
            if name not in known:
                raise InvalidValue(
                    f"options.{name!a:.80}", f"is no option; use {', '.join(self.names())}"
                )
        try:
            return replace(self, **options)
        except InvalidValue as error:
            raise InvalidValue(f"options.{error.path}", error.reason) from None

    def choice(self, context: Context) -> str:
        """The `tool_choice` for this step."""
        if self.tool_choice in ("auto", "none"):
            return self.tool_choice
        answered = any(isinstance(entry, Turn) for entry in context.transcript)
        return "auto" if answered else self.tool_choice

    def most(self, context: Context, least: int = 1) -> int | None:
        """The most tokens of an answer at this step; None if nothing limits it but the model.

        It is `max_tokens`, or the rest of a limit if that is less. If the prompt was counted, it
        leaves room for the prompt in the rest of the tokens.

        Args:
            least: The smallest number that the vendor takes.
        """
        left, most = context.remaining, self.max_tokens
        if most is None and (left.output_tokens, left.total_tokens, left.cost) == (None,) * 3:
            return None
        most = UNDER_A_LIMIT if most is None else most
        if left.output_tokens is not None:
            most = max(min(most, left.output_tokens), least)
        if left.total_tokens is not None and context.prompt_tokens is not None:
            most = max(min(most, left.total_tokens - context.prompt_tokens), least)
        return most

    def bound(self, context: Context, least: int = 1) -> int:
        """The output that a call's reservation counts: `most`, or `UNDER_A_LIMIT` without one."""
        return self.most(context, least) or UNDER_A_LIMIT
