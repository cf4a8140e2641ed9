"""The calculator works out sums, and executes nothing."""

from __future__ import annotations

import pytest

from agentic_kernel_cli.arithmetic import MAX_LENGTH, NoExpression, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12 * 34", "408"),
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 2 - 3", "5"),
        ("16 / 4 / 2", "2"),
        ("0.1 + 0.2", "0.3"),
        ("-(-3) + +2", "5"),
        ("7 - 7", "0"),
        ("-0", "0"),
        ("1 / 4", "0.25"),
        ("100 * 10", "1000"),
        ("1 / 3", "0." + "3" * 34),
        ("-12345678901234567890123456789012", "-12345678901234567890123456789012"),
        (" .5 * 4. ", "2"),
    ],
)
def test_an_expression_has_a_value(text: str, value: str) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 +", "* 2", "1 2", "(1", "1)", "()", "1 / 0", "0 / 0", "2 ** 3", "9^9", "1e999",
        "NaN", "inf", "__import__('os')", "x", "1,5", "٣", "1\0", "(" * 50 + "1" + ")" * 50,
        "-" * 50 + "1", "1+" * MAX_LENGTH + "1",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(NoExpression):
        evaluate(text)
