from pydantic import BaseModel

from agentic_kernel_openai import OpenAIRuntime

runtime = OpenAIRuntime("gpt-6-luna")


class Advice(BaseModel):
    city: str
    umbrella: bool


@runtime.tool
def place() -> str:
    """Name the city that the user is in."""
    return "Bonn"


@runtime.tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


print(runtime.run_sync("Do I need an umbrella?", output_type=Advice).unwrap())
