"""Agents: the consumers that hold a stream in this process."""
