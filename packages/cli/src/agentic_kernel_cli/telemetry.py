"""Telemetry: exports the runs of a command by OpenTelemetry, if the usual variables ask for it.

The packages are imported only then. Every fault of telemetry is one line on stderr, and the Tasks
run on without it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import typer

from .kinds import install
from .text import label

if TYPE_CHECKING:
    from agentic_kernel_engine import Substrate
    from agentic_kernel_otel import OTelObserver

FLUSH_SECONDS: Final = 5.0
"""The most seconds that the end of a command waits until everything is exported."""
SIGNALS: Final = ("traces", "metrics", "logs")
_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class Unavailable(Exception):
    """An exporter cannot be used here; the message says what to do."""


def wanted(env: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of the exporters that the variables ask for, by signal; empty if none are.

    ``OTEL_<SIGNAL>_EXPORTER`` names them. Without it, an OTLP endpoint for the signal or for all
    signals asks for ``otlp``. ``OTEL_SDK_DISABLED`` turns everything off. As the specification
    says, an empty variable counts as one that is not set.
    """
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    found = {}
    for signal in SIGNALS:
        named = env.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
        if not named and (env.get(_ENDPOINT, "").strip() or env.get(own, "").strip()):
            named = "otlp"
        exporters = [
            name for each in named.split(",") if (name := each.strip()) not in ("", "none")
        ]
        if exporters:
            found[signal] = exporters
    return found


def opened() -> Telemetry | None:
    """Set telemetry up; None if no variable asks for it, or, with a line on stderr, if it fails."""
    exporters = wanted(os.environ)
    if not exporters:
        return None
    try:
        return Telemetry(exporters)
    except ImportError:
        why = f"OpenTelemetry is not installed: {install('otel')}"
    except Unavailable as error:
        why = str(error)
    except Exception as error:  # A variable of the SDK has a value that it does not accept.
        why = f"{type(error).__name__}: {error}"
    _say(f"the OTEL_ variables ask for telemetry, but this run exports none; {label(why)}")
    return None


class Telemetry:
    """The exporters of one command, and the observer that feeds them.

    Args:
        exporters: The names of the exporters, by signal; see `wanted`.

    Raises:
        ImportError: A package of OpenTelemetry or of this project is not installed.
        Unavailable: There is no such exporter.
    """

    def __init__(self, exporters: Mapping[str, Sequence[str]]) -> None:
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from agentic_kernel_otel import OTelObserver

        made = {
            signal: [_exporter(signal, name) for name in exporters.get(signal, ())]
            for signal in SIGNALS
        }
        resource = Resource.create({} if _is_named() else {"service.name": "agentic-kernel"})
        traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        for each in made["traces"]:
            traces.add_span_processor(BatchSpanProcessor(each))
        readers = [
            each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each)
            for each in made["metrics"]
        ]
        metrics = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
        for each in made["logs"]:
            logs.add_log_record_processor(BatchLogRecordProcessor(each))
        self._providers = (traces, metrics, logs)
        self.observer: OTelObserver = OTelObserver(
            tracer_provider=traces,
            meter_provider=metrics,
            logger_provider=logs,
            capture_content=os.environ.get(_CONTENT, "").strip().lower() == "true",
        )

    @property
    def middleware(self) -> Sequence[Any]:
        """The last middlewares of each Loop."""
        return (self.observer.middleware,)

    def traced(self, substrate: Substrate) -> Substrate:
        """The substrate with each Task's trace current in its runs."""
        return self.observer.traced(substrate)

    def close(self) -> None:
        """Export what is left, within `FLUSH_SECONDS`, and end the exporters' threads."""
        threads = [
            # A thread each, and none that the process waits for: a backend may not answer.
            threading.Thread(target=provider.shutdown, daemon=True)
            for provider in self._providers
        ]
        for thread in threads:
            thread.start()
        deadline = monotonic() + FLUSH_SECONDS
        for thread in threads:
            thread.join(max(deadline - monotonic(), 0))
        if any(thread.is_alive() for thread in threads):
            _say(f"telemetry was not delivered within {FLUSH_SECONDS:g} s; is its receiver up?")


def _is_named() -> bool:
    """True if a variable names the service."""
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").replace(" ", "")
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or ",service.name=" in f",{given}"


def _exporter(signal: str, name: str) -> Any:
    """Make the exporter of a signal; it reads its own variables.

    Raises:
        Unavailable: No installed package has this exporter.
    """
    entry = name
    if name == "otlp":
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
        protocol = os.environ.get(own) or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = (protocol or "http/protobuf").strip()
        if protocol not in _PROTOCOLS:
            raise Unavailable(
                f"the OTLP protocol is {protocol[:40]!r}; use {' or '.join(_PROTOCOLS)}"
            )
        entry = _PROTOCOLS[protocol]
    found = tuple(entry_points(group=f"opentelemetry_{signal}_exporter", name=entry))
    if not found:
        if entry == _PROTOCOLS["http/protobuf"]:
            raise Unavailable(f"its OTLP exporter is not installed: {install('otel')}")
        package = "opentelemetry-exporter-otlp-proto-grpc" if name == "otlp" else "its package"
        raise Unavailable(f"the exporter {name[:40]!r} of {signal} is missing: install {package}")
    make = found[0].load()
    return make(out=sys.stderr) if name == "console" else make()


def _say(news: str) -> None:
    typer.echo(f"agentic-kernel: {news}", err=True)
