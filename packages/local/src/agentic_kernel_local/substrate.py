"""LocalSubstrate: a Task is one conversation with a model in this process."""

from __future__ import annotations

import os
from typing import Any

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import Job, TaskFailed, edges

from . import failures
from .engine import Engine, Request
from .generation import End, Prompt
from .loading import LocalModel
from .options import MOST_TOKENS, AnswerOptions, of_answers
from .transcript import Transcript, UnknownState


class LocalSubstrate:
    """Answers a Task's instructions, and each supplement as a further turn.

    The answer is streamed as ``run.delta`` events and checkpointed every ``checkpoint_tokens``:
    a pause takes effect in the middle of an answer, and what there is of it is kept. A resume
    without an extra, like a recovery after a crash, continues it where it broke off; with an
    extra, the model hears the extra and begins a new answer.

    The result is ``{"text": …, "finish_reason": "stop" | "length", "usage": {"input_tokens": …,
    "output_tokens": …}}``: the last turn's answer; whether the model ended it or ``max_tokens``
    cut it; and what all requests of the Task cost, as far as it is on record.

    One model is loaded per process and options, when the first Task needs it, and serves all
    Tasks of all substrates.
    """

    def __init__(
        self,
        *,
        model_path: str | os.PathLike[str] | None = None,
        slots: int = 4,
        context_tokens: int = 4096,
        threads: int | None = None,
        checkpoint_tokens: int = 16,
        answer: AnswerOptions | None = None,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            model_path: A GGUF file; see `find_model` for what is used if None.
            slots: Answers generated at once; more of them wait their turn.
            context_tokens: Room for one Task's prompt and answer.
            threads: Threads that compute; half as many as there are processors if None.
            checkpoint_tokens: Tokens between two checkpoints.
            answer: Defaults for what a Task does not ask for itself.

        Raises:
            InvalidValue: A number is out of range; it is named.
        """
        self._model = LocalModel(model_path, slots, context_tokens, threads)
        self._checkpoint_tokens = edges.whole(
            checkpoint_tokens, "checkpoint_tokens", 1, MOST_TOKENS
        )
        self._answer = of_answers(answer)

    async def open(self) -> Engine:
        """The loaded model; loads it if need be.

        Raises:
            CannotStart: There is no model, or it cannot be loaded; says what to do.
        """
        return await self._model.open()

    async def close(self) -> None:
        """Let go of the model; it is freed when nobody in this process uses it."""
        await self._model.close()

    async def accept(self, task: Task) -> None:
        """Refuse a Task whose options are not valid, or for which no model can be loaded.

        Raises:
            CannotStart: Says which option, or what to install.
        """
        try:
            self._answer.of(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error
        await self.open()

    async def execute(self, job: Job) -> dict[str, Any]:
        """Answer the Task from where its last commit left it.

        A Task that was taken over where its model is missing, or its state not understood, is
        paused with that reason and not failed: it can go on elsewhere.

        Raises:
            TaskFailed: With a code of `agentic_kernel_local.failures`.
        """
        try:
            options = self._answer.of(job.task)
        except InvalidValue as error:
            raise TaskFailed(failures.BAD_OPTIONS, str(error), {"path": error.path}) from error
        try:
            engine = await self.open()
            transcript = await Transcript.of(job)
        except (CannotStart, UnknownState) as error:
            await job.pause(job.state, reason=str(error))
        if (turn := transcript.hear()) is not None:
            job.emit(turn)
        if transcript.tokens >= options.max_tokens:
            return transcript.result("length")
        request = Request(
            messages=transcript.messages(options.system),
            max_tokens=options.max_tokens - transcript.tokens,
            temperature=options.temperature,
            seed=options.seed,
        )
        return await self._generate(job, engine, request, transcript)

    async def _generate(
        self, job: Job, engine: Engine, request: Request, transcript: Transcript
    ) -> dict[str, Any]:
        async def let_go_if_asked() -> None:
            if job.stopping:
                await job.checkpoint(transcript.state())

        transcript.begin_request()
        saved = transcript.tokens
        async with engine.generate(request, waiting=let_go_if_asked) as generation:
            async for item in generation:
                if isinstance(item, Prompt):
                    transcript.count_prompt(item.tokens)
                    await let_go_if_asked()
                elif isinstance(item, End):
                    transcript.count_answer(item.tokens)
                    if item.reason == "length" and item.tokens < request.max_tokens:
                        raise failures.outgrown(engine.options.context_tokens)
                    return transcript.result(item.reason)
                else:
                    job.emit(transcript.add(item.text, item.tokens))
                    if transcript.tokens - saved >= self._checkpoint_tokens or job.stopping:
                        saved = transcript.tokens
                        await job.checkpoint(transcript.state())
        raise TaskFailed(failures.MODEL_ERROR, "the model was closed in the middle of an answer")
