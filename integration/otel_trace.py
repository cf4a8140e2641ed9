"""A trace of one run over two processes, as it arrived; and the same run with the receiver down.

The first process comes to a payment that a person has to approve, and exits. The second approves
of it, is asked for a pause while it works, and goes on to the end. Both export over OTLP to a
receiver of the official services. Then all of it once more with nobody at the receiver's port.

    python -m integration.otel_trace [http|grpc]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from .otel_receiver import Receiver, Span, Wire
from .programs import parser

ROOT = Path(__file__).parent.parent
TIMEOUT = 120
_SHOWN = (
    "agentic_kernel.step", "agentic_kernel.task.status", "agentic_kernel.waiting_for",
    "agentic_kernel.stop_reason", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
    "gen_ai.request.stream", "agentic_kernel.tool.effect",
)  # fmt: skip


def play(state: Path, wire: Wire, endpoint: str) -> list[dict[str, Any]]:
    """Run both processes, one after the other; what each of them said.

    Raises:
        RuntimeError: One of them failed; with what it wrote.
    """
    said = []
    for what in ("begin", "go_on"):
        command = [sys.executable, "-m", "integration.otel_worker", what, str(state), wire]
        done = subprocess.run(
            [*command, endpoint], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT
        )
        if done.returncode:
            raise RuntimeError(f"{what} failed:\n{done.stderr}")
        said.append(json.loads(done.stdout))
    return said


def complete(receiver: Receiver) -> bool:
    """Whether the trace of a whole run has arrived, from the caller's span to the last part."""
    parts = [span for span in receiver.spans if span.name.startswith("invoke_agent")]
    return len(parts) == 3 and any(span.name == "POST /orders" for span in receiver.spans)


def drawn(spans: Sequence[Span]) -> list[str]:
    """The spans as a tree, in the order in which they began, numbered for their links."""
    ordered = sorted(spans, key=lambda span: span.began)
    processes = list(dict.fromkeys(span.process for span in ordered))
    known = {span.id for span in spans}
    placed: list[tuple[int, Span]] = []

    def place(span: Span, depth: int) -> None:
        placed.append((depth, span))
        for below in ordered:
            if below.parent == span.id:
                place(below, depth + 1)

    for span in ordered:
        if span.parent not in known:
            place(span, 0)
    numbers = {span.id: number for number, (_, span) in enumerate(placed, 1)}
    lines = []
    for depth, span in placed:
        indent, process = "  " * depth, processes.index(span.process) + 1
        details = [
            f"{key.rpartition('.')[2]}={span.attributes[key]}"
            for key in _SHOWN
            if key in span.attributes
        ]
        links = [f"{kind} part: {numbers.get(id, '?')}" for _, id, kind in span.links]
        line = f"{numbers[span.id]:>3}  {indent}{span.name}  [process {process}]"
        lines.append("  ".join([line, *details, *links]))
        events = [event.removeprefix("agentic_kernel.") for event in span.events]
        if events:
            lines.append(f"     {indent}  · {' · '.join(events)}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Show both runs."""
    words = parser("integration.otel_trace", __doc__)
    words.add_argument("wire", nargs="?", default="http", choices=get_args(Wire))
    wire: Wire = words.parse_args(arguments).wire
    with tempfile.TemporaryDirectory() as folder:
        with Receiver.over(wire) as receiver:
            up = play(Path(folder, "up"), wire, receiver.endpoint)
            receiver.wait(complete)
        down = play(Path(folder, "down"), wire, receiver.endpoint)
    print(f"What arrived over {wire}, in {len({span.trace for span in receiver.spans})} trace:\n")
    print("\n".join(drawn(receiver.spans)))
    print(f"\nMetrics: {', '.join(sorted(receiver.metrics))}")
    own = {span.id for span in receiver.spans}
    inside = sum(log.span in own for log in receiver.logs)
    print(f"Log records: {len(receiver.logs)}, {inside} of them in one of the spans")
    print("\nThe same run with nobody at that port:\n")
    for name, said in (("up", up), ("down", down)):
        spent = " + ".join(f"{part['seconds']:.2f} s" for part in said)
        print(f"  receiver {name}: {said[-1]['status']}, {said[-1]['result']!r}, {spent}")
    same = [part | {"seconds": 0} for part in up] == [part | {"seconds": 0} for part in down]
    print(f"  the same answers and the same {len(up[-1]['events'])} events: {same}")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
