"""Wires: how each vendor puts an answer, a call of a tool and an error into bytes."""

from .chat import Chat
from .gemini import Gemini
from .messages import Messages
from .ollama import Ollama
from .responses import Responses
from .wire import Wire

WIRES: tuple[Wire, ...] = (Responses(), Chat(), Messages(), Ollama(), Gemini())

__all__ = ["WIRES", "Wire"]
