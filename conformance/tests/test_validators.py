"""The engine's validator passes the validator contract, and so does a stricter one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentic_kernel_conformance import ValidatorContract, ValidatorFeatures
from agentic_kernel_conformance.validator import Fit
from agentic_kernel_engine.seams import Validator, compile_schema


class TestCompileSchema(ValidatorContract):
    features = ValidatorFeatures(exact=True)

    @pytest.fixture
    def validator(self) -> Validator:
        return compile_schema


class TestStricterValidator(ValidatorContract):
    """It has a demand of its own, so it is not exact."""

    @pytest.fixture
    def validator(self) -> Validator:
        def no_secrets(schema: Mapping[str, Any]) -> Fit:
            fits = compile_schema(schema)

            def fit(value: Any) -> str | None:
                if isinstance(value, dict) and "secret" in value:
                    return "leave out `secret`"
                return fits(value)

            return fit

        return no_secrets
