"""Short texts about people, and questions about them, with the vectors of a real model.

The vectors of all texts take minutes, so they are kept in a file of the temporary folder.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from integration.minilm import Array, minilm  # sets the number of threads before numpy is loaded

import numpy as np  # isort: skip

DIMENSIONS = 384
NAMES = (
    "Ann Bob Carla David Emma Farid Grace Hugo Ines Jonas Kim Lena Marco Nora Omar Paula "
    "Quinn Rosa Sam Tara"
).split()
VERBS = ("buys sells repairs likes forgot lost painted needs borrowed inherited").split()
KINDS = (
    "red green old broken cheap antique wooden heavy tiny stolen frozen noisy silk leather "
    "French electric folding silver empty dirty"
).split()
THINGS = (
    "car bicycle teapot piano lamp boat camera ladder violin jacket sofa clock oven tractor "
    "mirror suitcase drill carpet radio umbrella guitar printer kettle tent sword"
).split()
ASKED = (
    "Which {thing} is {kind}?",
    "What did {name} do with the {thing}?",
    "{name} and the {kind} {thing}",
    "who is interested in a {kind} {thing}",
    "is there anything {kind} that belongs to {name}",
    "a {kind} musical instrument of {name}",
    "furniture that {name} {verb}",
    "how does {name} travel without the {thing}",
)  # fmt: skip
"""Some of them name the words of a text, some only mean the same."""


def texts(count: int) -> list[str]:
    """Distinct texts, in an arbitrary order that is always the same; 100,000 at most."""
    parts = itertools.product(NAMES, VERBS, KINDS, THINGS)
    made = [f"{name} {verb} a {kind} {thing}" for name, verb, kind, thing in parts]
    random.Random(1).shuffle(made)
    return made[:count]


def questions(count: int) -> list[str]:
    """Distinct questions; none of them is a text."""
    dice = random.Random(2)
    made: dict[str, None] = {}
    while len(made) < count:
        asked = ASKED[len(made) % len(ASKED)].format(
            name=dice.choice(NAMES), verb=dice.choice(VERBS),
            kind=dice.choice(KINDS), thing=dice.choice(THINGS),
        )  # fmt: skip
        made[asked] = None
    return list(made)


def vectors(of: Sequence[str]) -> Array:
    """One row of 384 numbers for each text, from the file if it has them."""
    place = Path(tempfile.gettempdir()) / f"agentic-kernel-minilm-{len(of)}.npz"
    if place.exists():
        with np.load(place) as kept:
            if list(kept["texts"]) == list(of):
                found: Array = kept["vectors"]
                return found
    made = minilm().vectors(of)
    with place.open("wb") as file:
        np.savez(file, texts=np.array(of), vectors=made)
    return made


class Known:
    """An `Embedder` that has the vectors of some texts, so that no model runs while it is timed."""

    def __init__(self, of: Sequence[str], made: Array) -> None:
        self._vectors = dict(zip(of, made, strict=True))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        found = (self._vectors.get(text) for text in texts)
        return [[0.0] * DIMENSIONS if each is None else each.tolist() for each in found]
