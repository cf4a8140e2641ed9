"""A runtime that runs shell commands, and an observer that writes JSON lines."""
