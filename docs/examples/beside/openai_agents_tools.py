from agents import Agent, Runner, function_tool
from pydantic import BaseModel


class Advice(BaseModel):
    city: str
    umbrella: bool


@function_tool
def place() -> str:
    """Name the city that the user is in."""
    return "Bonn"


@function_tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It rains in {city}."


agent = Agent("Assistant", model="gpt-6-luna", tools=[place, weather], output_type=Advice)
print(Runner.run_sync(agent, "Do I need an umbrella?").final_output)
