"""Programs: the small programs of each library, and the servers that they are run against."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..pages.sections import DOCS
from ..peers.aimock import Aimock
from ..peers.llama import LlamaServer

FOLDER: Final = DOCS / "examples" / "beside"
PROGRAMS: Final = {
    "chat": "chat",
    "tools": "two tools, and a typed answer",
    "streaming": "text as it comes",
    "server": "a server of one's own",
}
"""The programs of each library, each with what it does."""
SECONDS: Final = 60.0
"""For one run of a program."""
_ANSWER: Final = "The sky scatters blue light."


@dataclass(frozen=True, slots=True)
class Library:
    """One library with the four programs."""

    name: str
    stem: str
    """What the names of its files begin with."""
    requires: tuple[str, ...] = ()
    """Exact requirements, the library first; none for this project."""

    @property
    def title(self) -> str:
        """Its name, and the version that was run."""
        return " ".join([self.name, *(each.partition("==")[2] for each in self.requires[:1])])

    def source(self, program: str) -> str:
        """The text of a program."""
        return (FOLDER / f"{self.stem}_{program}.py").read_text(encoding="utf-8")


_SDK: Final = ("openai==3.54.0", "pydantic==2.14.3")
OURS: Final = Library("AgenticKernel", "kernel")
OTHERS: Final = (
    Library(
        "Pydantic AI",
        "pydantic_ai",
        ("pydantic-ai-slim[openai]==2.68.0", "pydantic-graph==2.68.0", *_SDK),
    ),
    Library("OpenAI Agents SDK", "openai_agents", ("openai-agents==0.24.0", *_SDK)),
)


class Servers:
    """Aimock for the programs of a vendor's server, and the small model for their own.

    The small model starts with the first program that asks it. Both end with ``keep``.
    """

    def __init__(self, keep: ExitStack) -> None:
        self._keep = keep
        self._llama: LlamaServer | None = None
        self.aimock = keep.enter_context(Aimock())

    @property
    def llama(self) -> LlamaServer:
        """The small model, which runs."""
        if self._llama is None:
            self._llama = self._keep.enter_context(LlamaServer())
        return self._llama

    def run(self, python: str | Path, library: Library, program: str) -> str:
        """Run a program with this Python; the text that it printed.

        Raises:
            AssertionError: The program failed.
            subprocess.TimeoutExpired: It did not end within `SECONDS`.
        """
        self.aimock.load(_fixtures(library))
        source = library.source(program)
        if program == "server":
            source = _led_to(self.llama, source)
        with TemporaryDirectory(prefix="beside-") as folder:
            done = subprocess.run(
                [python, "-c", source], env=_environment(self.aimock), cwd=folder,
                capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check(self, library: Library, program: str, printed: str) -> None:
        """Hold the text that a program printed against the answer of its server.

        Raises:
            AssertionError: The program printed another text, or did not call the tools.
        """
        if program == "server":
            assert printed.strip(), "the small model was not heard"
        elif program == "tools":
            assert "Bonn" in printed
            assert "umbrella=True" in printed
            results = [
                message["content"]
                for message in self.aimock.requests()[-1].body["messages"]
                if message["role"] == "tool"
            ]
            assert results[:2] == ["Bonn", "It rains in Bonn."]
        else:
            assert printed.strip() == _ANSWER


@contextmanager
def servers() -> Iterator[Servers]:
    """Start the servers of the programs, and end them after the block."""
    with ExitStack() as keep:
        yield Servers(keep)


def _led_to(llama: LlamaServer, source: str) -> str:
    """The program with the small model in place of the server that it names."""
    places = {
        "http://127.0.0.1:8080/v1": f"{llama.url}/v1",
        "none": llama.api_key,
        "my-model": llama.model,
    }
    for written, stands in places.items():
        assert source.count(f'"{written}"') == 1, f"the program does not say {written}"
        source = source.replace(f'"{written}"', repr(stands))
    return source


def _environment(aimock: Aimock) -> Mapping[str, str]:
    return {
        **os.environ,
        "OPENAI_BASE_URL": f"{aimock.url}/v1",
        "OPENAI_API_KEY": "none",
        # Its exporter would ask a server of the vendor.
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }


def _fixtures(library: Library) -> list[dict[str, Any]]:
    """Answer as a model that asks for both tools, one after the other, and then gives advice.

    Pydantic AI takes a typed answer as the call of a tool of its own.
    """
    advice = {"city": "Bonn", "umbrella": True}
    if library.stem == "pydantic_ai":
        ends = _called("final_result", advice)
    else:
        ends = {"content": json.dumps(advice)}
    said = [_called("place", {}), _called("weather", {"city": "Bonn"}), ends]
    asked = "Do I need an umbrella?"
    turns = [
        {"match": {"userMessage": asked, "sequenceIndex": index}, "response": response}
        for index, response in enumerate(said)
    ]
    return [*turns, {"match": {"userMessage": "sky"}, "response": {"content": _ANSWER}}]


def _called(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    call = {"name": tool, "arguments": json.dumps(arguments), "id": f"call_{tool}"}
    return {"toolCalls": [call]}
