from pydantic import BaseModel
from pydantic_ai import Agent


class Advice(BaseModel):
    city: str
    umbrella: bool


agent = Agent("openai:gpt-6-luna", output_type=Advice)


@agent.tool_plain
def place() -> str:
    """Name the city that the user is in."""
    return "Bonn"


@agent.tool_plain
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


print(agent.run_sync("Do I need an umbrella?").output)
