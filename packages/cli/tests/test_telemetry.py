"""Telemetry of the command: switched on by the usual variables, and by nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_cli import telemetry
from agentic_kernel_cli.kinds import install
from integration.otel_receiver import Receiver, Wire
from integration.peers.aimock import Aimock

from .terminals import Terminals

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
ALL = {signal: ["otlp"] for signal in ("traces", "metrics", "logs")}
RUN = ("run", "--runtime", "openai", "--model", "scripted")


@pytest.fixture
def scripted(terminals: Terminals, aimock: Aimock) -> Terminals:
    """Terminals whose vendor is the scripted server, without any variable of OpenTelemetry."""
    kept = {name: value for name, value in terminals.env.items() if not name.startswith("OTEL_")}
    terminals.env.clear()
    terminals.env |= kept | {
        "OPENAI_API_KEY": "none-needed",
        "OPENAI_BASE_URL": f"{aimock.url}/v1",
    }
    return terminals


@pytest.mark.parametrize(
    ("env", "exporters"),
    [
        ({}, {}),
        ({"OTEL_SERVICE_NAME": "mine", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {}),
        ({ENDPOINT: "http://here"}, ALL),
        ({ENDPOINT: ""}, {}),
        ({ENDPOINT: "http://here", "OTEL_SDK_DISABLED": "True"}, {}),
        ({ENDPOINT: "http://here", "OTEL_SDK_DISABLED": "1"}, ALL),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://here"}, {"traces": ["otlp"]}),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, {"traces": ["otlp", "console"]}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {}),
        (
            {ENDPOINT: "http://here", "OTEL_TRACES_EXPORTER": "none"},
            {"metrics": ["otlp"], "logs": ["otlp"]},
        ),
    ],
)
def test_the_variables_choose_the_exporters(
    env: dict[str, str], exporters: dict[str, list[str]]
) -> None:
    assert telemetry.wanted(env) == exporters


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["http", pytest.param("grpc", marks=pytest.mark.torture)])
def test_two_commands_export_one_task_as_one_trace(
    scripted: Terminals, aimock: Aimock, tmp_path: Path, wire: Wire
) -> None:
    call = {"name": "write_file", "arguments": '{"path": "note.txt", "content": "hello"}'}
    aimock.script({"toolCalls": [call]}, {"content": "It is written."})
    words = ("--runtime", "openai", "--model", "scripted", "--tools", "write", "--workspace",
             str(tmp_path))  # fmt: skip
    with Receiver.over(wire) as receiver:
        scripted.env |= {
            ENDPOINT: receiver.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc" if wire == "grpc" else "http/protobuf",
            "OTEL_EXPORTER_OTLP_INSECURE": "true",
        }
        scripted.call("run", *words, "--id", "it", "Write it.", code=3)
        # Everything was flushed before the command ended.
        assert [s.name for s in receiver.spans if s.name.startswith("invoke")] == ["invoke_agent"]
        scripted.env["OTEL_SERVICE_NAME"] = "mine"
        (request,) = scripted.task("it")["metadata"]["engine/waiting_for"]["requests"]
        done = scripted.call("approve", "it", request["digest"], *words)
    assert done.out.strip() == "It is written."
    assert "OTEL" not in done.err
    assert receiver.services == {"agentic-kernel", "mine"}
    first, second = (span for span in receiver.spans if span.name == "invoke_agent")
    assert len({span.trace for span in receiver.spans}) == 1
    assert second.links == [(first.trace, first.id, "earlier")]
    asked = [span.attributes.get("gen_ai.request.model") for span in receiver.spans
             if span.name == "chat scripted"]  # fmt: skip
    assert asked == ["scripted", "scripted"]
    assert {log.name for log in receiver.logs} >= {"agentic_kernel.task.paused"}
    assert "gen_ai.invoke_agent.duration" in receiver.metrics
    assert not any("gen_ai.input.messages" in span.attributes for span in receiver.spans)


@pytest.mark.slow
@pytest.mark.torture
def test_a_receiver_that_is_not_there_changes_no_answer(
    scripted: Terminals, aimock: Aimock
) -> None:
    aimock.script({"content": "Hello."})
    scripted.env |= {ENDPOINT: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = scripted.call(*RUN, "Say hello.")
    assert done.out.strip() == "Hello."
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_the_console_exporter_writes_to_stderr_only(scripted: Terminals, aimock: Aimock) -> None:
    aimock.script({"content": "Hello."})
    scripted.env |= {
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    }
    done = scripted.call(*RUN, "Say hello.")
    assert done.out.strip() == "Hello."
    assert '"name": "chat scripted"' in done.err
    assert "gen_ai.input.messages" in done.err


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"OTEL_TRACES_EXPORTER": "smoke"}, "the exporter 'smoke' of traces is missing"),
        ({ENDPOINT: "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "use http/protobuf or grpc"),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "ValueError: "),
    ],
    ids=["exporter", "protocol", "value"],
)
def test_what_cannot_be_exported_is_one_line_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    env: dict[str, str],
    told: str,
) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert telemetry.opened() is None
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("agentic-kernel: the OTEL_ variables ask for telemetry, but this")
    assert told in said.err
    assert said.err.count("\n") == 1


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("opentelemetry", "agentic_kernel_otel"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from agentic_kernel_cli.app import main
main()
"""


@pytest.mark.slow
@pytest.mark.torture
def test_without_the_packages_one_line_says_what_to_install(
    scripted: Terminals, aimock: Aimock
) -> None:
    aimock.script({"content": "Hello."}, {"content": "Hello."})
    words = ("-c", WITHOUT, "--state", str(scripted.state), *RUN, "Say hello.")
    assert "OTEL_" not in scripted.program(*words).ended(0).err
    scripted.env[ENDPOINT] = "http://127.0.0.1:9"
    done = scripted.program(*words).ended(0)
    assert done.out.strip() == "Hello."
    (line,) = [line for line in done.err.splitlines() if "OTEL_" in line]
    assert line.endswith(f"is not installed: {install('otel')}")


@pytest.mark.parametrize("env", [{}, {ENDPOINT: "http://127.0.0.1:9"}], ids=["unset", "set"])
def test_a_command_that_runs_nothing_never_imports_it(env: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['agentic-kernel', '--state', {str(tmp_path)!r}, 'list']\n"
        "from agentic_kernel_cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if 'opentelemetry' in name or 'telemetry' in name])"
    )
    given: dict[str, Any] = {**os.environ, **env}
    seen = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True
    )
    assert seen.stdout == "[]\n"
