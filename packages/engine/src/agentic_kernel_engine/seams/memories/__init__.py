"""Memories that come with the engine."""

from .embedding import BadVector, Embedder, EmbeddingMemory
from .hashing import HashingEmbedder
from .in_memory import InMemoryMemory
from .none import NoMemory

__all__ = [
    "BadVector",
    "Embedder",
    "EmbeddingMemory",
    "HashingEmbedder",
    "InMemoryMemory",
    "NoMemory",
]
