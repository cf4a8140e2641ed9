"""Beside: four small programs with this project, with Pydantic AI and with the Agents SDK."""
