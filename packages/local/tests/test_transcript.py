"""Transcript: the conversation that the model is given, rebuilt from state and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from agentic_kernel import Dispatch, Pause, Resume, Task, apply
from agentic_kernel_engine import Event, Job
from agentic_kernel_local.transcript import Transcript, UnknownState


def task(*supplements: str) -> Task:
    new = Task.new(summary="", instructions="Tell me.", runtime_kind="local")
    running = apply(new, Dispatch(), new.created_at)
    for extra in supplements:
        running = apply(apply(running, Pause(), new.created_at), Resume(extra), new.created_at)
    return running


class Entry:
    """What a job offers at entry, and nothing that writes."""

    def __init__(self, task: Task, state: Any, history: Sequence[Event] = ()) -> None:
        self.task = task
        self.state = state
        self.fresh = state is None and not history
        self._history = history

    async def history(self) -> Sequence[Event]:
        return self._history


async def restored(task: Task, state: Any, *history: Event) -> Transcript:
    return await Transcript.of(cast(Job, Entry(task, state, history)))


def delta(text: str, at: int | None = None) -> Event:
    return Event("run.delta", {"text": text} if at is None else {"text": text, "at": at})


STATE = {"v": 1, "tokens": 2, "input_tokens": 9, "output_tokens": 2}
SAID = {**STATE, "v": 2, "said": 4}


async def test_the_first_request_is_the_instructions() -> None:
    transcript = await restored(task(), None)
    assert transcript.hear() is None
    assert transcript.messages(None) == [{"role": "user", "content": "Tell me."}]
    assert transcript.messages("Be brief.")[0] == {"role": "system", "content": "Be brief."}


async def test_an_answer_in_progress_is_the_last_message() -> None:
    transcript = await restored(task(), STATE, delta("Once "), Event("task.paused"), delta("upon"))
    assert transcript.hear() is None
    assert transcript.messages(None)[-1] == {"role": "assistant", "content": "Once upon"}
    assert transcript.tokens == 2


async def test_a_supplement_follows_the_partial_answer_and_opens_a_new_one() -> None:
    transcript = await restored(task("Make it a cat."), STATE, delta("Once upon"))
    turn = transcript.hear()
    assert turn is not None
    assert (turn.type, turn.data) == ("run.turn", {"supplements": 1})
    assert transcript.tokens == 0
    assert transcript.messages(None) == [
        {"role": "user", "content": "Tell me."},
        {"role": "assistant", "content": "Once upon"},
        {"role": "user", "content": "Make it a cat."},
    ]
    again = await restored(task("Make it a cat."), STATE, delta("Once upon"), turn, delta("A cat"))
    assert again.hear() is None
    assert [message["content"] for message in again.messages(None)] == [
        "Tell me.", "Once upon", "Make it a cat.", "A cat",
    ]  # fmt: skip
    assert again.result("stop")["text"] == "A cat"


async def test_supplements_without_an_answer_between_join_the_users_message() -> None:
    transcript = await restored(task("In French.", "Briefly."), None)
    transcript.hear()
    assert transcript.messages(None) == [
        {"role": "user", "content": "Tell me.\n\nIn French.\n\nBriefly."}
    ]


async def test_what_is_counted_is_tokens_since_the_request_began() -> None:
    transcript = await restored(task(), STATE, delta("Once"))
    transcript.begin_request()
    transcript.count_prompt(30)
    transcript.count_prompt(30)
    transcript.add(" upon", 2)
    transcript.add(" a time", 5)
    transcript.count_answer(6)
    assert transcript.state() == {
        "v": 2, "said": 16, "tokens": 8, "input_tokens": 39, "output_tokens": 8,
    }  # fmt: skip


async def test_an_answer_goes_on_from_the_last_commit_and_says_where() -> None:
    """Text that was flushed after the commit has no tokens in the state; it is said again."""
    transcript = await restored(task(), SAID, delta("Once", 0), delta(" upo", 4))
    assert transcript.hear() is None
    assert transcript.messages(None)[-1] == {"role": "assistant", "content": "Once"}
    assert transcript.add(" upon", 3).data == {"text": " upon", "at": 4}
    assert transcript.state()["said"] == 9
    assert transcript.result("stop")["text"] == "Once upon"


async def test_a_supplement_follows_all_of_the_answer_that_was_seen() -> None:
    history = [delta("Once", 0), delta(" upo", 4)]
    transcript = await restored(task("Make it a cat."), SAID, *history)
    turn = transcript.hear()
    assert turn is not None
    assert transcript.messages(None)[1] == {"role": "assistant", "content": "Once upo"}
    assert transcript.add("A", 1).data == {"text": "A", "at": 0}
    now = {**SAID, "said": 1}
    again = await restored(task("Make it a cat."), now, *history, turn, delta("A cat", 0))
    assert again.hear() is None
    assert [message["content"] for message in again.messages(None)] == [
        "Tell me.", "Once upo", "Make it a cat.", "A",
    ]  # fmt: skip


async def test_an_answer_that_was_flushed_and_never_committed_begins_again() -> None:
    transcript = await restored(task(), None, delta("Once upo", 0))
    assert transcript.hear() is None
    assert transcript.messages(None) == [{"role": "user", "content": "Tell me."}]
    assert transcript.add("Once", 1).data == {"text": "Once", "at": 0}


async def test_a_state_of_version_1_has_the_text_that_its_version_stored() -> None:
    """Another run of this version may have flushed text beside it, and committed nothing."""
    transcript = await restored(task(), STATE, delta("Once "), delta("upon"), delta(" a time", 9))
    assert transcript.hear() is None
    assert transcript.messages(None)[-1] == {"role": "assistant", "content": "Once upon"}
    assert transcript.add(" a cat", 3).data == {"text": " a cat", "at": 9}


async def test_the_state_does_not_grow_with_the_text() -> None:
    transcript = await restored(task(), None)
    transcript.add("word " * 10_000, 10_000)
    assert len(str(transcript.state())) < 100


@pytest.mark.parametrize(
    "state", [7, [], {}, {"v": 2}, {"v": 3}, {**STATE, "tokens": "2"}, {**SAID, "said": "4"}]
)
async def test_a_state_of_another_making_is_refused(state: Any) -> None:
    with pytest.raises(UnknownState, match="version of agentic-kernel-local"):
        await restored(task(), state)
