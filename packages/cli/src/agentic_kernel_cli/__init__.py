"""The command ``agentic-kernel``: Tasks on this machine, from any number of terminals."""
