"""LocalSubstrate: a Task is one conversation with a model in this process."""

from __future__ import annotations

import os
from typing import Any

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import Job, StateUnreadable, TaskFailed, edges

from . import failures
from .engine import Engine, Request
from .generation import End, Prompt
from .loading import LocalModel
from .options import INPUTS, MOST_TOKENS, AnswerOptions, of_answers
from .transcript import Transcript, UnknownState


class LocalSubstrate:
    """Answers a Task's instructions, and each supplement as a further turn.

    The answer is streamed as ``run.delta`` events, with a checkpoint every ``checkpoint_tokens``.
    So a pause takes effect in the middle of an answer, and the Task keeps the text so far. A resume
    without an extra, or a recovery after a crash, continues the answer where it stopped. A resume
    with an extra makes the model read the extra and begin a new answer.

    The result is ``{"text": …, "finish_reason": "stop" | "length", "usage": {"input_tokens": …,
    "output_tokens": …}}``. The text is the last turn's answer. The reason is ``stop`` if the model
    ended the answer, and ``length`` if ``max_tokens`` cut it off. The usage is that of all requests
    of the Task, as far as it was committed.

    The process loads one model for equal options, when the first Task needs it; this model serves
    all Tasks of all substrates.
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
        """Check the options; load nothing yet.

        Args:
            model_path: A GGUF file; if None, `find_model` chooses one.
            slots: Answers generated at once; further ones wait in a queue.
            context_tokens: Tokens for one Task's prompt and answer.
            threads: Number of computing threads; None for half the number of processors.
            checkpoint_tokens: Tokens between two checkpoints.
            answer: Defaults for options that a Task does not set.

        Raises:
            InvalidValue: A value is out of range or of the wrong type; the error names it.
        """
        self._model = LocalModel(model_path, slots, context_tokens, threads)
        self._checkpoint_tokens = edges.whole(
            checkpoint_tokens, "checkpoint_tokens", 1, MOST_TOKENS
        )
        self._answer = of_answers(answer)

    async def open(self) -> Engine:
        """Return the loaded model; load it first if necessary.

        Raises:
            CannotStart: There is no model, or it cannot be loaded; the error says what to do.
        """
        return await self._model.open()

    async def close(self) -> None:
        """Give the model back; the last user in this process frees it."""
        await self._model.close()

    async def accept(self, task: Task) -> None:
        """Refuse a Task with an input that is not taken or not valid, or without a model.

        Raises:
            CannotStart: The error names the input, or says what to install.
        """
        self._answer.accept(task, INPUTS)
        await self.open()

    async def execute(self, job: Job) -> dict[str, Any]:
        """Answer the Task, from the state of its last commit.

        If this process has no model, the run pauses the Task with that reason instead of failing
        it: another process can continue it.

        Raises:
            StateUnreadable: Another substrate or another version wrote the state.
            TaskFailed: The failure has a code of `agentic_kernel_local.failures`.
        """
        job.announce(self._model.name)
        try:
            options = self._answer.of(job.task)
        except InvalidValue as error:
            raise TaskFailed(failures.BAD_OPTIONS, str(error), {"path": error.path}) from error
        try:
            engine = await self.open()
            transcript = await Transcript.of(job)
        except UnknownState as error:
            raise StateUnreadable(str(error)) from error
        except CannotStart as error:
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
