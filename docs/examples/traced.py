"""Every run as a trace: here in the terminal, elsewhere in any OpenTelemetry backend."""

import asyncio

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from agentic_kernel_engine import tool
from agentic_kernel_openai import OpenAIRuntime
from agentic_kernel_otel import OTelObserver


@tool(effect="read")
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(
        SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"{span.name}\n"))
    )
    trace.set_tracer_provider(provider)
    async with OpenAIRuntime("gpt-6-luna", tools=[weather], observer=OTelObserver()) as runtime:
        print((await runtime.run("How is the weather in Bonn?")).unwrap())
    provider.shutdown()


asyncio.run(main())
