"""Quirks: how servers with OpenAI's API differ from OpenAI's own, each played on our runtime."""
