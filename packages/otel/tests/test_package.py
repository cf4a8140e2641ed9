"""The public names of the package, and its requirements."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import agentic_kernel_otel


def test_the_names_are_these() -> None:
    assert agentic_kernel_otel.__all__ == [
        "ROOT",
        "SPAN",
        "TRACEPARENT",
        "TRACESTATE",
        "OTelObserver",
        "TracedSubstrate",
        "TracingMiddleware",
        "redacted",
        "traceparent",
        "with_trace",
    ]


def test_it_needs_the_api_alone() -> None:
    """In a process where nothing else of OpenTelemetry can be imported, a run is observed."""
    program = """
        import asyncio, sys

        class OnlyTheAPI:
            def find_spec(self, name, path=None, target=None):
                for part in ("sdk", "proto", "exporter", "semconv"):
                    if name.startswith(f"opentelemetry.{part}"):
                        raise ImportError(name)

        sys.meta_path.insert(0, OnlyTheAPI())

        from agentic_kernel import Task
        from agentic_kernel_engine import Host, Loop
        from agentic_kernel_engine.loop import FinalAnswer
        from agentic_kernel_engine.seams import ScriptedPlanner
        from agentic_kernel_otel import OTelObserver

        async def main():
            otel = OTelObserver(capture_content=True)
            loop = Loop(ScriptedPlanner(FinalAnswer("done")), middleware=[otel.middleware])
            async with Host(otel.traced(loop), observer=otel) as host:
                task = Task.new(summary="", instructions="", runtime_kind="loop")
                print((await host.run(task)).result)

        asyncio.run(main())
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert said.stdout == "done\n"
