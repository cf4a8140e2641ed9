"""The firewall: modes, budgets, cuts, fields, and that no secret is left in a frame."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_guard import (
    Budgets,
    Cut,
    Firewall,
    FrameLimits,
    RawRefused,
    RawResult,
    Redactor,
)
from agentic_kernel_guard.firewall.redact import spans

from .test_redact import SECRETS, left

ALL = FrameLimits()
MODES = ("summary", "table", "handle_only")


def frame(value: Any, mode: Any = "table", limits: FrameLimits = ALL, **budgets: int) -> Any:
    """The frame of a value."""
    made = Firewall(Budgets(**budgets)).frame(
        RawResult(value, "d", "crm"), mode=mode, constraints=limits
    )
    json.dumps(made.as_json())
    return made


def people(count: int) -> list[dict[str, Any]]:
    """Rows with a number, a name and a city."""
    return [{"id": n, "name": f"n{n}", "city": "Rome" if n % 3 else "Oslo"} for n in range(count)]


def test_a_table_has_its_rows_and_counts_those_that_are_left_out() -> None:
    made = frame(people(60), chars=100_000)
    assert made.rows == tuple(people(60)[:50])
    assert made.cuts == (Cut("rows", 50, 60),)
    assert frame(people(60), limits=FrameLimits(max_rows=7)).cuts == (Cut("rows", 7, 60),)


def test_a_summary_tells_types_counts_ranges_and_frequent_values() -> None:
    made = frame([*people(60), {"id": None, "city": True}], "summary")
    assert made.summary.splitlines() == [
        "61 rows of 3 fields",
        '"id": number (60), null (1); from 0 to 59; 60 distinct',
        '"name": text; absent 1 times; 60 distinct',
        '"city": text (60), true or false (1); 3 distinct; most often "Rome" (40), "Oslo" (20), '
        "true (1)",
    ]
    assert made.rows == tuple(people(3))
    assert frame([*people(60), {"id": None, "city": True}], "summary") == made


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "0 rows"), ("hello", "1 row"), (7, "1 row"), (None, "1 row"), ({}, "1 row"),
        ([1, 2, 2], "3 rows"), ({"a": 1}, "1 row of 1 field"), ({1, 2}, "2 rows"),
    ],
)  # fmt: skip
def test_every_form_of_result_has_a_size_and_no_more_by_its_handle(value: Any, said: str) -> None:
    made = frame(value, "handle_only")
    assert (made.summary, made.rows, made.value, made.taint) == (said, (), None, ())
    assert frame(value, "summary").summary.startswith(said)
    assert frame(value).taint == ("crm",)


def test_the_budgets_for_fields_depth_and_nested_rows_are_kept_and_counted() -> None:
    wide = frame([{f"f{n}": n for n in range(30)}])
    assert len(wide.rows[0]) == 20
    assert wide.cuts == (Cut("fields", 20, 30),)
    deep = frame({"a": {"b": {"c": {"d": 1}}, "e": [[1]]}})
    assert deep.rows == ({"a": {"b": {"c": "[1 fields]"}, "e": ["[1 items]"]}},)
    assert deep.cuts == (Cut("depth", 0, 2, "a"),)
    long = frame({"a": list(range(70))})
    assert long.rows == ({"a": list(range(50))},)
    assert long.cuts == (Cut("rows", 50, 70, "a"),)


def test_the_budget_for_characters_is_kept_and_counted() -> None:
    made = frame(["x" * 10_000, "y" * 10_000])
    assert len(made.rows) == 1
    assert made.rows[0].endswith("… [10,000 characters]")
    assert len(made.rows[0]) <= 4_000
    assert [cut.kind for cut in made.cuts] == ["rows", "characters"]
    rows = [{f"f{n}": "x" * 300 for n in range(10)} for _ in range(50)]
    assert len(json.dumps(frame(rows).rows)) < 4_500


def test_only_allowed_fields_are_named_or_shown() -> None:
    limits = FrameLimits(allowed_fields=frozenset({"name"}))
    for mode in MODES:
        made = frame([*people(9), "a text", ["x"]], mode, limits)
        said = json.dumps(made.as_json())
        assert not [word for word in ("city", "Rome", "id", "a text") if f'"{word}' in said]
    assert frame(people(2), "table", limits).rows == ({"name": "n0"}, {"name": "n1"})
    assert frame("a text", "table", limits).rows == ()
    assert "a text" not in frame("a text", "summary", limits).summary


def test_a_sensitive_field_is_hidden_at_any_depth_and_in_the_summary() -> None:
    limits = FrameLimits(sensitive_fields=frozenset({"salary"}))
    value = [{"salary": 70_001, "more": {"Salary": 70_002}, "of": [{"salary": 70_003}]}]
    for mode in MODES:
        assert "7000" not in json.dumps(frame(value, mode, limits).as_json())


def test_raw_is_for_those_who_may_and_unknown_modes_are_refused() -> None:
    with pytest.raises(RawRefused, match="ask for summary or table"):
        frame([1], "raw")
    with pytest.raises(InvalidValue, match="use summary, table, handle_only, raw"):
        frame([1], "all")
    assert frame({"password": "x"}, "raw", FrameLimits(raw=True)).value == {"password": "x"}


def test_what_is_no_json_is_shown_in_a_form_of_it() -> None:
    at = datetime(2026, 11, 24, tzinfo=UTC)
    parts = {"b": b"\xff", "c": {3, 1}, "d": at, "e": Decimal("1.5"), "f": object()}
    row: dict[Any, Any] = {1: b"text", **parts, "g": float("nan")}
    value = [row]
    shown = {"b": "[1 bytes]", "c": [1, 3], "d": at.isoformat(), "e": "1.5", "f": "[object]"}
    assert frame(value).rows == ({"1": "text", **shown, "g": "[nan]"},)
    assert '"1": bytes' in frame(value, "summary").summary


def test_a_secret_is_replaced_before_a_text_is_cut() -> None:
    text = "x" * 3_900 + " 4111 1111 1111 1111 " + "y" * 500
    for chars in range(3_900, 3_960, 3):
        assert "4111" not in json.dumps(frame(text, chars=chars).as_json())


@pytest.mark.parametrize("mode", ["summary", "table"])
def test_the_work_on_a_huge_result_has_a_bound(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def counted(text: str, *rest: Any) -> Any:
        nonlocal looked
        looked += len(text)
        return spans(text, *rest)

    monkeypatch.setattr("agentic_kernel_guard.firewall.redact.redactor.spans", counted)
    huge = "some words of a page\n" * 100_000
    rows = [{f"field{n}": huge, huge[:n]: 1} for n in range(300_000, 300_020)]
    made = frame([{"page": huge, "more": huge}, *rows], mode, rows=20)
    assert looked < 1_000_000
    assert len(json.dumps(made.as_json())) < 20_000
    assert str(made.rows[0]["page"]).startswith("some words of a page\nsome words")
    assert any(cut.kind == "characters" and cut.total >= len(huge) for cut in made.cuts)


def test_of_a_huge_text_that_is_json_only_the_size_is_shown() -> None:
    text = json.dumps([{"password": "hunter2", "n": n} for n in range(20_000)])
    assert frame(text).rows == (f"… [a text of {len(text):,} characters]",)
    assert "hunter2" not in json.dumps(frame("\n" + text, "summary").as_json())


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_part_of_a_secret_stands_at_the_end_of_a_beginning(secret: str) -> None:
    for before in (" word", "word\n", f"{secret} \n"):
        for at in range(0, len(secret) + 8, 3):
            text = (before * 4_000)[: 4_000 - at] + f" {secret} " + "more words\n" * 500
            found = Redactor().head(text, 4_000)
            assert found is not None
            assert left(secret, found[0]) == []


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_secret_is_left_in_any_frame(secret: str) -> None:
    values: list[Any] = [
        secret, [secret] * 5, {secret: secret}, [{"note": secret, secret: [secret]}] * 4,
        {"a": {"b": [secret]}}, json.dumps([{"a": secret}]), (secret,), {secret}, secret.encode(),
    ]  # fmt: skip
    for value in values:
        for mode in MODES:
            made = frame(value, mode)
            shown = json.dumps(made.as_json(), ensure_ascii=False)
            assert left(secret, shown.replace("\\n", "\n")) == [], (mode, value)
            assert made.redactions or mode == "handle_only"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=60)
@given(_json, st.sampled_from(MODES), st.integers(1, 300))
def test_any_result_has_a_frame_within_its_budgets(value: Any, mode: str, chars: int) -> None:
    made = frame(value, mode, chars=chars, rows=3, fields=3, depth=2)
    assert made == frame(value, mode, chars=chars, rows=3, fields=3, depth=2)
    size = sum(map(_size, made.rows)) + (len(made.summary) if mode == "summary" else 0)
    assert size <= max(chars, 40)
    assert len(made.rows) <= 3


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(key) + _size(each) for key, each in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else len(str(value))


def test_rows_are_selected_by_equality_of_type_and_value() -> None:
    rows = [{"a": 1}, {"a": True}, {"a": 1.0}, {"b": 1}, "text", {"a": 1, "b": 2}]
    firewall = Firewall()
    assert firewall.select(rows, equals={"a": 1}) == [{"a": 1}, {"a": 1, "b": 2}]
    assert firewall.select(rows, equals={"a": True}) == [{"a": True}]
    assert firewall.select(rows, fields=["b"], offset=3) == [{"b": 1}, {"b": 2}]
    assert firewall.select(rows, offset=1, limit=2) == [{"a": True}, {"a": 1.0}]
    assert firewall.select({"a": 1}) == [{"a": 1}]
    for wrong in ({"offset": -1}, {"limit": 0}, {"offset": "1"}):
        with pytest.raises(InvalidValue, match=r"query\."):
            firewall.select(rows, **wrong)


@pytest.mark.parametrize("name", ["rows", "fields", "chars", "depth"])
def test_a_budget_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match=rf"budgets\.{name}"):
        Firewall(Budgets(**{name: 0}))


def test_a_number_that_python_does_not_write_is_shown_by_its_size() -> None:
    for mode in MODES:
        made = frame([{"n": 10**5_000, 10**5_000: 1}, {"n": -1}], mode)
        assert mode == "handle_only" or "16,610 bits" in json.dumps(made.as_json())
