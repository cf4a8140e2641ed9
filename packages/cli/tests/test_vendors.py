"""Models behind a server: the same commands, with another runtime."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from integration.peers.aimock import Aimock
from integration.peers.llama import LlamaServer

from .terminals import Terminals

OPENAI = ("--runtime", "openai", "--model", "scripted")


@pytest.fixture
def scripted(terminals: Terminals, aimock: Aimock) -> Terminals:
    """Terminals whose vendors are the scripted server."""
    terminals.env |= {
        "OPENAI_API_KEY": "none-needed",
        "OPENAI_BASE_URL": f"{aimock.url}/v1",
        "ANTHROPIC_API_KEY": "none-needed",
        "ANTHROPIC_BASE_URL": aimock.url,
        "GEMINI_API_KEY": "none-needed",
        "GOOGLE_GEMINI_BASE_URL": f"{aimock.url}/v1beta",
    }
    return terminals


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("openai",),
        pytest.param(("openai", "--api", "chat"), marks=pytest.mark.torture),
        pytest.param(("claude",), marks=pytest.mark.torture),
    ],
)
def test_the_real_small_model_answers(
    terminals: Terminals, llama: LlamaServer, words: tuple[str, ...]
) -> None:
    terminals.env |= {
        "OPENAI_API_KEY": llama.api_key,
        "OPENAI_BASE_URL": f"{llama.url}/v1",
        "ANTHROPIC_API_KEY": llama.api_key,
        "ANTHROPIC_BASE_URL": llama.url,
    }
    options = ("--model", llama.model, "--max-tokens", "1500", "--json")
    *events, task = terminals.call("run", "--runtime", *words, *options, "Say hello.").lines
    pieces = [line["data"]["text"] for line in events if line["type"] == "run.delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == task["result"]
    assert task["runtime_kind"] == words[0]
    [made] = [line["data"] for line in events if line["type"] == "plan.made"]
    assert made["usage"]["output_tokens"] > 1


@pytest.mark.parametrize("runtime", ["openai", pytest.param("claude", marks=pytest.mark.torture)])
def test_a_write_waits_for_an_approval_and_goes_on_with_the_same_model(
    scripted: Terminals, aimock: Aimock, tmp_path: Path, runtime: str
) -> None:
    call = {"name": "write_file", "arguments": '{"path": "note.txt", "content": "hello"}'}
    aimock.script({"toolCalls": [call]}, {"content": "It is written."})
    words = ("--runtime", runtime, "--model", "scripted", "--tools", "write")
    asked = scripted.call(
        "run", *words, "--workspace", str(tmp_path), "--id", "it", "Write it.", code=3
    )
    assert "waits for approval of " in asked.err
    proposed = shlex.split(asked.err.splitlines()[-1].partition("go on with: ")[2])
    flags = ["--runtime", runtime, "--model", "scripted", "--tools", "write"]
    assert proposed[6:-2] == flags
    refused = scripted.call("approve", *proposed[4:6], *flags[4:], "--workspace", ".", code=5)
    assert f"the runtime {runtime}, the model scripted" in refused.err
    done = scripted.call(*proposed[3:])
    assert done.out.strip() == "It is written."
    assert (tmp_path / "note.txt").read_text() == "hello"
    assert [each.body["model"] for each in aimock.requests()] == ["scripted", "scripted"]


@pytest.mark.parametrize(
    ("words", "missing", "told"),
    [
        (("openai", "--model", "m"), "OPENAI_API_KEY", "OPENAI_API_KEY"),
        pytest.param(
            ("claude", "--model", "m"),
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_API_KEY",
            marks=pytest.mark.torture,
        ),
        pytest.param(
            ("gemini", "--model", "m"),
            "GEMINI_API_KEY",
            "GEMINI_API_KEY",
            marks=pytest.mark.torture,
        ),
        (("openai",), "", "--model"),
        (("claude", "--model", "m", "--api", "chat"), "", "--api"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_left(
    scripted: Terminals, words: tuple[str, ...], missing: str, told: str
) -> None:
    scripted.env.pop(missing, None)
    refused = scripted.call("run", "--runtime", *words, "text", code=1)
    assert told in refused.err
    assert refused.err.count("\n") == 1
    assert scripted.call("--json", "list").lines == []


def test_an_unknown_runtime_is_a_usage_error(terminals: Terminals) -> None:
    refused = terminals.call("run", "--runtime", "abacus", "text", code=2)
    assert "use local, claude, copilot" in refused.err


def test_a_failure_has_its_code_and_no_key(scripted: Terminals, aimock: Aimock) -> None:
    scripted.env["OPENAI_API_KEY"] = "sk-not-to-be-shown-0123456789"
    aimock.load(
        [{"match": {}, "response": {"error": {"message": "bad key sk-not-to-be-shown-0123456789",
                                              "type": "invalid_request_error",
                                              "code": "invalid_api_key"}, "status": 401}}]
    )  # fmt: skip
    failed = scripted.call("run", *OPENAI, "--id", "it", "text", code=1)
    assert "openai/authentication" in failed.err
    shown = scripted.call("show", "it", "--events").out
    assert "openai/authentication" in shown
    assert "not-to-be-shown" not in failed.err + failed.out + shown


def test_gemini_answers(scripted: Terminals, aimock: Aimock) -> None:
    aimock.script({"content": "It is 42."})
    done = scripted.call("run", "--runtime", "gemini", "--model", "scripted", "12 + 30?")
    assert done.out.strip() == "It is 42."
    [asked] = aimock.requests()
    assert asked.body["model"] == "scripted"


@pytest.mark.parametrize("runtime", ["openai", "gemini"])
def test_the_doctor_tells_of_a_runtime_what_is_there(scripted: Terminals, runtime: str) -> None:
    looked = scripted.call("--json", "doctor", "--runtime", runtime).lines
    told = {line["name"]: line for line in looked if line["needed"]}
    for name in (f"agentic-kernel-{runtime}", f"{runtime} key", f"{runtime} server"):
        assert told[name]["ok"], told[name]
    assert told[f"{runtime} models"]["ok"], told[f"{runtime} models"]
    assert "none-needed" not in str(looked)
    assert "model" not in told


def test_the_doctor_tells_what_a_runtime_lacks(scripted: Terminals) -> None:
    del scripted.env["ANTHROPIC_API_KEY"]
    scripted.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:1"
    looked = scripted.call("--json", "doctor", "--runtime", "claude", code=1).lines
    wrong = {line["name"]: line["advice"] for line in looked if line["needed"] and not line["ok"]}
    assert wrong["claude key"] == "set ANTHROPIC_API_KEY"
    assert "ANTHROPIC_BASE_URL" in wrong["claude server"]
