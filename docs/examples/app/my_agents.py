"""Agents of your own, which the command runs."""

# --8<-- [start:app]
from agentic_kernel_engine import Host, Store
from agentic_kernel_openai import OpenAIRuntime


def umbrellas(city: str) -> int:
    """How many umbrellas the shop in a city has."""
    return {"Bonn": 12}.get(city, 0)


def shop(store: Store) -> Host:
    """The command calls this with the store that --state names."""
    return OpenAIRuntime("gpt-5-mini", store, tools=[umbrellas], claims=False)


# --8<-- [end:app]
