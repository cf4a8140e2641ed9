"""One run over two processes is one trace at the receiver; with the receiver down it is one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from .otel_receiver import Receiver, Span
from .otel_trace import complete, drawn, play


@pytest.mark.slow
def test_a_run_with_a_tool_an_approval_and_a_pause_over_two_processes(tmp_path: Path) -> None:
    with Receiver.over("http") as receiver:
        up = play(tmp_path / "up", "http", receiver.endpoint)
        receiver.wait(complete)
    down = play(tmp_path / "down", "http", receiver.endpoint)
    assert [part | {"seconds": 0} for part in down] == [part | {"seconds": 0} for part in up]
    assert up[-1]["result"] == "on its way"

    spans = sorted(receiver.spans, key=lambda span: span.began)
    by_id = {span.id: span for span in spans}
    assert len({span.trace for span in spans}) == 1
    (caller,) = [span for span in spans if span.name == "POST /orders"]
    first, second, third = _named(spans, "invoke_agent")
    assert {part.parent for part in (first, second, third)} == {caller.id}
    assert [part.links for part in (first, second, third)] == [
        [], [(first.trace, first.id, "earlier")], [(second.trace, second.id, "earlier")],
    ]  # fmt: skip
    assert first.process != second.process == third.process
    assert [part.attributes["agentic_kernel.task.status"] for part in (first, second, third)] == [
        "paused", "paused", "success",
    ]  # fmt: skip
    assert first.attributes["agentic_kernel.waiting_for"] == "approval"
    assert "agentic_kernel.approval.given" in second.events
    assert "agentic_kernel.task.pause_requested" in second.events
    calls = {span.name: span.parent for span in _named(spans, "execute_tool")}
    assert calls == {
        "execute_tool price": first.id,
        "execute_tool pay": second.id,
        "execute_tool pack": second.id,
    }
    assert [by_id[chat.parent].name for chat in _named(spans, "chat")] == ["plan shop/clerk"] * 4
    assert "agentic_kernel.pause.duration" in receiver.metrics
    assert {log.trace for log in receiver.logs if log.span in by_id} == {caller.trace}
    assert len(drawn(spans)) == len(spans) + 3


def _named(spans: list[Span], begins: str) -> list[Span]:
    return [span for span in spans if span.name.startswith(begins)]
