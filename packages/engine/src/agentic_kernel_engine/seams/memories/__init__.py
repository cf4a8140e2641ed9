"""Memories that come with the engine."""

from .embedding import EmbeddingMemory
from .hashing import HashingEmbedder
from .in_memory import InMemoryMemory
from .none import NoMemory
from .vectors import BadVector, Embedder

__all__ = [
    "BadVector",
    "Embedder",
    "EmbeddingMemory",
    "HashingEmbedder",
    "InMemoryMemory",
    "NoMemory",
]
