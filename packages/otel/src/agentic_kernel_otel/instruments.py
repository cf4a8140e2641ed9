"""Instruments: the metrics; each of their labels takes at most `MOST_VALUES` values."""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Meter

from . import conventions as names

MOST_VALUES: Final = 200
"""The most values of one label; further values become `conventions.OTHER`."""
_MOST_KNOWN: Final = 1_000
_Labels = tuple[dict[str, str], dict[str, str], dict[str, str]]


class Instruments:
    """The metrics of one observer.

    Args:
        meter: Creates the instruments.
    """

    def __init__(self, meter: Meter) -> None:
        self._labels: dict[str, set[str]] = {}
        self._models: dict[tuple[str, str, str], _Labels] = {}
        self._tools: dict[tuple[str, str], dict[str, str]] = {}
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE, "{token}", "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )  # fmt: skip
        self._chat = meter.create_histogram(
            names.CHAT_DURATION, "s", "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.CALL_BUCKETS,
        )  # fmt: skip
        self._first_chunk = meter.create_histogram(
            names.TIME_TO_FIRST_CHUNK, "s", "Time to receive the first chunk.",
            explicit_bucket_boundaries_advisory=names.CALL_BUCKETS,
        )  # fmt: skip
        self._agent = meter.create_histogram(
            names.AGENT_DURATION, "s", "Duration of one run of a Task.",
            explicit_bucket_boundaries_advisory=names.AGENT_BUCKETS,
        )  # fmt: skip
        self._tool = meter.create_histogram(
            names.TOOL_DURATION, "s", "The duration of a single tool execution.",
            explicit_bucket_boundaries_advisory=names.CALL_BUCKETS,
        )  # fmt: skip
        self._pause = meter.create_histogram(
            names.PAUSE_DURATION, "s", "Time from the request of a pause to the paused Task.",
            explicit_bucket_boundaries_advisory=names.LATENCY_BUCKETS,
        )  # fmt: skip
        self._kill = meter.create_histogram(
            names.KILL_DURATION, "s", "Time from the decision of a kill to the cancelled Task.",
            explicit_bucket_boundaries_advisory=names.LATENCY_BUCKETS,
        )  # fmt: skip
        self._failures = meter.create_counter(
            names.FAILURES, "{failure}", "Failures, by operation and code."
        )
        self._entered = meter.create_counter(
            names.ENTERED, "{task}", "Tasks, by the status that they entered."
        )
        self._running = meter.create_up_down_counter(
            names.RUNNING, "{task}", "Tasks that run in this process."
        )

    def entered(self, status: str) -> None:
        """Count a Task that entered a status."""
        self._entered.add(1, {names.STATUS: status})

    def began(self) -> None:
        """Count a Task that began to run here."""
        self._running.add(1)

    def ended(self, seconds: float, agent: str, error: str) -> None:
        """Record a run that ended here."""
        self._running.add(-1)
        labels = {names.AGENT: self._label(names.AGENT, agent)} if agent else {}
        self._agent.record(seconds, self._failed(labels, names.INVOKE_AGENT, error))

    def answered(
        self,
        seconds: float,
        first: float | None,
        provider: str,
        asked: str,
        model: str,
        error: str,
    ) -> None:
        """Record an answer, or a failed call, of a model.

        Args:
            first: Seconds to the first piece; None if the answer was not streamed.
            asked: The name by which the model was asked; "" if it is not known.
            model: The name of the model that answered.
        """
        labels, _, _ = self._of_model(provider, asked, model)
        if first is not None:
            self._first_chunk.record(first, labels)
        self._chat.record(seconds, self._failed(labels, names.CHAT, error))

    def used(self, input: int, output: int, provider: str, asked: str, model: str) -> None:
        """Record the tokens that a call used."""
        _, to_model, from_model = self._of_model(provider, asked, model)
        self._tokens.record(input, to_model)
        self._tokens.record(output, from_model)

    def called(self, seconds: float, tool: str, agent: str, error: str) -> None:
        """Record a call of a tool."""
        labels = self._tools.get((tool, agent))
        if labels is None:
            labels = {names.TOOL_NAME: self._label("tool", tool), names.TOOL_TYPE: "function"}
            if agent:
                labels[names.AGENT] = self._label(names.AGENT, agent)
            if len(self._tools) < _MOST_KNOWN:
                self._tools[tool, agent] = labels
        self._tool.record(seconds, self._failed(labels, names.EXECUTE_TOOL, error))

    def failed(self, operation: str, error: str) -> None:
        """Count a failure whose duration is not known."""
        self._failed({}, operation, error)

    def paused(self, seconds: float) -> None:
        """Record the time that a pause took."""
        self._pause.record(seconds)

    def killed(self, seconds: float) -> None:
        """Record the time that a kill took."""
        self._kill.record(seconds)

    def _of_model(self, provider: str, asked: str, model: str) -> _Labels:
        """Return the labels of a model's calls, of its input tokens, and of its output tokens."""
        known = self._models.get((provider, asked, model))
        if known is None:
            labels = {names.OPERATION: names.CHAT, names.PROVIDER: self._label("by", provider)}
            if asked:
                labels[names.REQUEST_MODEL] = self._label("asked", asked)
            if model:
                labels[names.RESPONSE_MODEL] = self._label("model", model)
            known = (
                labels,
                {**labels, names.TOKEN_TYPE: "input"},
                {**labels, names.TOKEN_TYPE: "output"},
            )
            if len(self._models) < _MOST_KNOWN:
                self._models[provider, asked, model] = known
        return known

    def _label(self, name: str, value: str) -> str:
        """Return the value, or `conventions.OTHER` if the label already has too many values."""
        seen = self._labels.setdefault(name, set())
        if value not in seen:
            if len(seen) >= MOST_VALUES:
                return names.OTHER
            seen.add(value)
        return value

    def _failed(self, labels: dict[str, str], operation: str, error: str) -> dict[str, str]:
        """Return the labels with the error, if there is one, and count that error."""
        if not error:
            return labels
        code = self._label("error", error)
        self._failures.add(1, {names.OPERATION: operation, names.ERROR_TYPE: code})
        return {**labels, names.ERROR_TYPE: code}
