"""ValidatorContract: the duties of a schema Validator to tools and answers. Needs the engine."""

from __future__ import annotations

import inspect
import json
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine import values
from agentic_kernel_engine.seams import Validator

from .contract import Contract, supplied
from .features import ValidatorFeatures
from .planner_contexts import tools
from .rules import RuleError, broken, expect, refused
from .validator_cases import CASES, NO_SCHEMAS, OBJECT
from .values import ACCEPTED

Fit = Callable[[Any], str | None]

LONGEST: Final = 4_000
"""The longest message, in characters: it goes to the model, and the value may be megabytes."""
_THREADS: Final = 4


class ValidatorContract(Contract):
    """A validator makes checks; a check accepts no value that does not fit its schema.

    Fixture: ``validator``. Features: `ValidatorFeatures`.
    """

    contract: ClassVar[str] = "ValidatorContract"
    features: ClassVar[ValidatorFeatures] = ValidatorFeatures()
    fixtures = frozenset({"validator"})

    validator: Any = supplied("validator")
    """The `Validator` under test. Supplied by the adapter."""

    @pytest.mark.rule("kit")
    def test_the_fixture_makes_checks(self, validator: Validator) -> None:
        """It is a function of a schema, and its checks are functions of a value."""
        expect(callable(validator), "kit", f"{validator!r:.100} cannot be called")
        expect(callable(validator(dict(OBJECT))), "kit", "what it made of a schema is no function")

    @pytest.mark.rule("fits")
    def test_what_does_not_fit_is_refused(self, validator: Validator) -> None:
        """With a message. A value of another type does not fit, even if Python finds it equal."""
        for name, case in CASES.items():
            fits = _compiled(validator, case.schema)
            for value in case.misfits:
                said = f"{name}: {value!a:.100} was accepted by {case.schema!a:.200}"
                expect(_checked(fits, value) is not None, "fits", said)

    @pytest.mark.rule("fits")
    @pytest.mark.feature("exact")
    def test_what_fits_is_accepted(self, validator: Validator) -> None:
        """The check says None, and no empty message."""
        for name, case in CASES.items():
            fits = _compiled(validator, case.schema)
            for value in case.fits:
                problem = _checked(fits, value)
                said = f"{name}: {value!a:.100} was refused: {problem!a:.200}"
                expect(problem is None, "fits", said)

    @pytest.mark.rule("fits")
    def test_every_value_is_judged(self, validator: Validator) -> None:
        """Under an open schema and under a narrow one; the message is short and can be stored."""
        narrow = {"type": "object", "additionalProperties": {"type": "null"}}
        checks = [_compiled(validator, schema) for schema in ({}, narrow, OBJECT)]
        for name, value in ACCEPTED.items():
            for given in (value, {"text": value}, {"": value}):
                problems = [_checked(fits, given) for fits in checks]
                if self.features.exact:
                    said = f"{name} does not fit the open schema: {problems[0]!a:.200}"
                    expect(problems[0] is None, "fits", said)
            for given in ({"text": [value]}, {"text": "a", "count": {"no": value}}):
                problem = _checked(checks[-1], given)
                said = f"{given!a:.100} was accepted by {OBJECT!a:.200}"
                expect(problem is not None, "fits", said)

    @pytest.mark.rule("fits")
    def test_a_message_tells_mistakes_apart(self, validator: Validator) -> None:
        """A model that cannot see what is wrong makes the same call again."""
        fits = _compiled(validator, OBJECT)
        told = [_checked(fits, wrong) for wrong in ({}, {"text": 7}, {"text": "a", "count": "x"})]
        expect(len(set(told)) == len(told), "fits", f"for three mistakes it said {told!a:.300}")
        for problem, name in zip(told, ("text", "text", "count"), strict=True):
            named = problem is not None and name in problem
            expect(named, "fits", f"{problem!a:.200} does not name the part {name!a}")

    @pytest.mark.rule("fits")
    def test_what_is_no_schema_is_refused(self, validator: Any) -> None:
        """When the check is made, with `InvalidValue`, and not when it is used."""
        for name, wrong in NO_SCHEMAS.items():
            with refused("fits", InvalidValue, f"{name}, {wrong!a:.100},"):
                validator(wrong)

    @pytest.mark.rule("fits")
    def test_no_reference_is_fetched(self, validator: Validator) -> None:
        """A schema comes from outside; a server of the kit that it refers to is not called."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            port = server.getsockname()[1]
            for address in (f"http://127.0.0.1:{port}/schema.json", "file:///etc/hostname"):
                self._unfetched(validator, address)
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return
            raise broken("fits", "a reference of a schema was fetched")

    def _unfetched(self, validator: Validator, address: str) -> None:
        """Expect that a schema with this reference is refused, or that no value fits it."""
        try:
            fits = validator({"type": "object", "properties": {"a": {"$ref": address}}})
        except InvalidValue:
            return
        except Exception as error:
            raise broken("fits", f"a reference to {address} raised {error!r:.200}") from error
        problem = _checked(fits, {"a": 1})
        expect(problem is not None, "fits", f"unread, {address} was taken for fulfilled")

    @pytest.mark.rule("context")
    def test_a_schema_and_a_value_are_read_only(self, validator: Validator) -> None:
        """No default is filled in, nothing is coerced, and no key is added to the schema."""
        for case in CASES.values():
            schema = json.loads(json.dumps(case.schema))
            before = json.dumps(schema)
            fits = _compiled(validator, schema)
            for value in (*case.fits, *case.misfits):
                _checked(fits, value)
            expect(json.dumps(schema) == before, "context", f"{before:.200} was changed")

    @pytest.mark.rule("alias")
    def test_a_check_keeps_the_schema_that_it_was_made_of(self, validator: Validator) -> None:
        """A change of the caller's schema does not change the check."""
        for change in (_opened, dict.clear):
            schema = json.loads(json.dumps(OBJECT))
            fits = _compiled(validator, schema)
            change(schema)
            problem = _checked(fits, {"text": 7})
            expect(problem is not None, "alias", "a check changed with the caller's schema")

    @pytest.mark.rule("fits", "apart")
    def test_a_check_says_the_same_each_time(self, validator: Validator) -> None:
        """After other values, after other schemas, and from a second check of the same schema."""
        checks = [(_compiled(validator, each.schema), each) for each in CASES.values()]
        asked = [(fits, v) for fits, each in checks for v in (*each.misfits, *each.fits)]
        first = [_checked(fits, value) for fits, value in asked]
        again = [_checked(fits, value) for fits, value in reversed(asked)][::-1]
        for (_, value), one, other in zip(asked, first, again, strict=True):
            expect(one == other, "fits", f"of {value!a:.100} it said {one!a}, and then {other!a}")
        others = [(_compiled(validator, e.schema), v) for _, e in checks for v in e.misfits]
        for fits, value in others:
            expect(_checked(fits, value) is not None, "apart", f"{value!a:.100} fits a second time")

    @pytest.mark.rule("apart")
    def test_a_check_is_used_in_several_threads(self, validator: Validator) -> None:
        """Each thread is told what one thread alone is told."""
        checks = [_compiled(validator, case.schema) for case in CASES.values()]
        asked = [
            (fits, value)
            for fits, case in zip(checks, CASES.values(), strict=True)
            for value in (*case.misfits, *case.fits)
        ]
        alone = [_checked(fits, value) for fits, value in asked]
        ready = threading.Barrier(_THREADS)

        def all_of_it(first: int) -> list[str | None]:
            order = [*asked[first:], *asked[:first]]
            ready.wait(self.patience)
            found = [_checked(fits, value) for _ in range(3) for fits, value in order][
                -len(order) :
            ]
            return [*found[len(order) - first :], *found[: len(order) - first]]

        with ThreadPoolExecutor(_THREADS) as pool:
            told = list(pool.map(all_of_it, range(0, 4 * _THREADS, 4)))
        for found in told:
            for (_, value), one, other in zip(asked, alone, found, strict=True):
                expect(
                    one == other, "apart", f"{value!a:.100}: {one!a} alone, {other!a} in threads"
                )

    @pytest.mark.rule("fits")
    def test_the_schemas_of_typed_functions_are_accepted(self, validator: Validator) -> None:
        """A Loop gives its validator the schemas of all its tools."""
        for each in tools():
            for schema in (each.input_schema, each.output_schema):
                if schema is not None:
                    _compiled(validator, schema)


def _opened(schema: dict[str, Any]) -> None:
    schema["properties"]["text"].clear()


def _compiled(validator: Validator, schema: Mapping[str, Any]) -> Fit:
    try:
        fits = validator(schema)
    except Exception as error:
        raise broken("fits", f"the schema {schema!a:.200} raised {error!r:.200}") from error
    expect(callable(fits), "fits", f"of {schema!a:.200} it made a {type(fits).__name__}")
    return fits


def _checked(fits: Fit, value: Any) -> str | None:
    """The message of a check; expect that it can be told to a model, and the value unchanged."""
    before = json.dumps(value)
    try:
        problem: Any = fits(value)
    except RuleError:
        raise
    except Exception as error:
        raise broken("fits", f"a check of {value!a:.100} raised {error!r:.200}") from error
    if inspect.iscoroutine(problem):
        problem.close()
    expect(json.dumps(value) == before, "context", f"a check changed {before:.200}")
    if problem is None:
        return None
    told = isinstance(problem, str) and bool(problem.strip())
    expect(told, "fits", f"of {value!a:.100} it said {problem!r:.100}; say None, or a message")
    expect(len(problem) <= LONGEST, "fits", f"a message has {len(problem):,} characters")
    try:
        values.check_text(problem, "the message")
    except InvalidValue as error:
        raise broken("fits", str(error)) from error
    return str(problem)
