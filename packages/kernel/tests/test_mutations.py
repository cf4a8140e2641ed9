"""The six mutations as values: immutable, comparable, copied and pickled whole."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from agentic_kernel import Complete, Dispatch, Fail, Failure, Kill, Mutation, Pause, Resume

FAILURE = Failure("acme/x", "x", {"retry_after_ms": 5})
NOTES = {"acme/n": [1, {"deep": None}]}
BARE: list[Mutation] = [
    Dispatch(),
    Pause(),
    Resume(),
    Resume("more"),
    Kill(),
    Complete(None),
    Complete({"sum": [2]}),
    Fail(FAILURE),
]
NOTED: list[Mutation] = [
    Dispatch(notes=NOTES),
    Pause(notes=NOTES),
    Resume("more", notes=NOTES),
    Kill(notes=NOTES),
    Complete({"sum": [2]}, notes=NOTES),
    Fail(FAILURE, notes=NOTES),
]
EACH = pytest.mark.parametrize("mutation", [*BARE, *NOTED], ids=repr)


@EACH
def test_a_mutation_survives_copying_and_pickling(mutation: Mutation) -> None:
    copies = [copy.copy(mutation), copy.deepcopy(mutation)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copies.append(pickle.loads(pickle.dumps(mutation, protocol)))
    for copied in copies:
        assert type(copied) is type(mutation)
        assert copied == mutation
        assert hash(copied) == hash(mutation)
        assert repr(copied) == repr(mutation)


@EACH
def test_a_mutation_cannot_be_changed(mutation: Mutation) -> None:
    before = repr(mutation)
    for name in ("notes", "verb", "extra", "result", "failure", "other"):
        with pytest.raises(AttributeError):
            setattr(mutation, name, None)
        with pytest.raises(AttributeError):
            delattr(mutation, name)
    assert repr(mutation) == before


@EACH
def test_a_mutation_shows_how_it_was_made(mutation: Mutation) -> None:
    names = {kind.__name__: kind for kind in (Dispatch, Pause, Resume, Kill, Complete, Fail)}
    assert eval(repr(mutation), {**names, "Failure": Failure}) == mutation  # noqa: S307


def test_mutations_are_equal_when_verb_payload_and_notes_are() -> None:
    for number, mutation in enumerate([*BARE, *NOTED]):
        for other_number, other in enumerate([*BARE, *NOTED]):
            assert (mutation == other) == (number == other_number)
        assert mutation != mutation.verb


def test_a_payload_is_not_aliased_with_what_was_passed_in() -> None:
    result = {"sum": [2]}
    mutation = Complete(result)
    result["sum"].append(3)
    assert mutation.result == {"sum": [2]}


def test_payloads_can_be_matched() -> None:
    seen = []
    for mutation in BARE:
        match mutation:
            case Resume(value) | Complete(value) | Fail(value):
                seen.append(value)
            case _:
                seen.append(mutation.verb)
    assert seen == ["dispatch", "pause", None, "more", "kill", None, {"sum": [2]}, FAILURE]


@pytest.mark.parametrize("kind", [Complete, Fail])
def test_a_payload_that_is_not_optional_has_to_be_given(kind: Any) -> None:
    with pytest.raises(TypeError):
        kind()


@pytest.mark.parametrize("kind", [Dispatch, Pause, Kill])
def test_a_mutation_without_a_payload_takes_none(kind: Any) -> None:
    with pytest.raises(TypeError):
        kind("payload")
