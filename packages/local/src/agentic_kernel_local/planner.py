"""LocalPlanner: asks a model in this process for the steps of a `Loop`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import TaskFailed, edges
from agentic_kernel_engine.loop import NOTHING_USED, Context, Delta, Plan, PlannerError, Usage

from . import failures
from .engine import Engine, Request
from .generation import End, Piece, Prompt
from .loading import LocalModel
from .options import PLANNER_INPUTS, AnswerOptions, of_answers
from .prompting import Example, action_in, action_schema, messages


class LocalPlanner:
    """A Planner whose every complete answer is a valid action: decoding is constrained to actions.

    The model can only call a tool that it is shown, with arguments that fit the tool's schema, or
    give the final answer. A small model still chooses badly: give it one or two tools, tiny tasks
    and an `Example` for each tool. The raw JSON is streamed on the channel ``arguments``.

    Args:
        model_path: A GGUF file; if None, `find_model` chooses one.
        answer: Limit and sampling of one answer. An answer that ``max_tokens`` cuts off is not an
            action, and fails with ``local/cut``.
        examples: Each is shown to the model if the step has its tool.
        slots: Answers generated at once; further ones wait in a queue.
        context_tokens: Tokens for one prompt and its answer.
        threads: Number of computing threads; None for half the number of processors.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    def __init__(
        self,
        *,
        model_path: str | os.PathLike[str] | None = None,
        answer: AnswerOptions | None = None,
        examples: Sequence[Example] = (),
        slots: int = 4,
        context_tokens: int = 4096,
        threads: int | None = None,
    ) -> None:
        self._model = LocalModel(model_path, slots, context_tokens, threads)
        self._answer = of_answers(answer)
        if isinstance(examples, str) or not isinstance(examples, Sequence):
            raise InvalidValue("examples", f"is {edges.came(examples)}; give a list of Example")
        for index, each in enumerate(examples):
            if not isinstance(each, Example):
                raise InvalidValue(f"examples[{index}]", f"is {edges.came(each)}; give an Example")
        self._examples = tuple(examples)
        self._context_tokens = context_tokens

    @property
    def model(self) -> str:
        """The name of the model's file without the suffix; "" if there is no such file."""
        return self._model.name

    async def open(self) -> Engine:
        """Load the model now; otherwise the first step loads it.

        Raises:
            CannotStart: There is no model, or it cannot be loaded; the error says what to do.
        """
        return await self._model.open()

    async def accept(self, task: Task) -> None:
        """Refuse a Task with an input that is not taken, or with an option that is not valid.

        Raises:
            CannotStart: The error names the input.
        """
        self._answer.accept(task, PLANNER_INPUTS)

    async def close(self) -> None:
        """Give the model back; the last user in this process frees it."""
        await self._model.close()

    def worst_case(self, context: Context) -> Usage:
        """Return the usage of a prompt that fills the context, and of the longest answer.

        Raises:
            InvalidValue: A ``local/…`` option of the Task is not valid.
        """
        options = self._answer.of(context.task)
        return Usage(self._context_tokens, min(options.max_tokens, self._context_tokens))

    async def plan(self, context: Context) -> AsyncIterator[Delta | Plan]:
        """Yield the pieces of the answer as they come, then the plan; leaving stops the model.

        Each piece tells the most that the answer uses up if it is left there: the prompt, and the
        longest answer, because the model may be ahead of the pieces.

        Raises:
            PlannerError: ``local/no_model``, ``local/cut``, or another code of
                `agentic_kernel_local.failures` if the model failed.
            InvalidValue: A ``local/…`` option of the Task is not valid.
        """
        options = self._answer.of(context.task)
        try:
            engine = await self.open()
        except CannotStart as error:
            raise PlannerError(failures.NO_MODEL, str(error), usage=NOTHING_USED) from error
        request = Request(
            messages=messages(context, options.system, self._examples),
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            schema=action_schema(context.tools, context.output_schema),
        )
        said: list[str] = []
        prompt = tokens = 0
        try:
            async with engine.generate(request) as generation:
                async for item in generation:
                    if isinstance(item, Prompt):
                        prompt = item.tokens
                    elif isinstance(item, Piece):
                        said.append(item.text)
                        tokens = item.tokens
                        yield Delta(item.text, "arguments", self._most(prompt, options))
                    elif isinstance(item, End):
                        yield self._plan(item, "".join(said), prompt, engine)
                        return
        except TaskFailed as failure:
            if isinstance(failure, PlannerError):
                raise
            raise PlannerError(
                failure.code, failure.message, failure.metadata, usage=Usage(prompt, tokens)
            ) from failure
        raise PlannerError(
            failures.MODEL_ERROR,
            "the model was closed in the middle of an answer",
            usage=self._most(prompt, options),
        )

    def _most(self, prompt: int, options: AnswerOptions) -> Usage:
        return Usage(prompt, min(options.max_tokens, self._context_tokens))

    def _plan(self, end: End, text: str, prompt: int, engine: Engine) -> Plan:
        usage = Usage(prompt, end.tokens)
        try:
            action = action_in(text)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise PlannerError(
                failures.CUT,
                f"the answer was cut off after {end.tokens} tokens and is not an action; raise "
                "local/max_tokens or context_tokens",
                {"text": text[:500]},
                usage=usage,
            ) from error
        return Plan((action,), usage=usage, model=engine.options.model.stem)
