"""An agent of the server. It needs a client of the wire: ``pip install rebuno==0.4.8``."""

from __future__ import annotations

from rebuno import Agent, execution, tool


@tool("shop.words")
async def words(part: str) -> str:
    """A local tool: it runs here, after a rule has allowed it."""
    return f"the part {part!r}"


@tool("stock", remote=True)
async def stock(part: str) -> int:
    """A remote tool: a runner that offers ``stock`` runs it, so this body is not called."""
    raise NotImplementedError


@tool("order", remote=True)
async def order(part: str, count: int) -> str:
    """Another remote tool; if a rule asks for an approval, the call waits for it."""
    raise NotImplementedError


async def handle(part: str, count: int) -> dict[str, object]:
    """One execution; its input has these arguments, and its output is what is returned."""
    if await stock(part) >= count:
        return {"of": await words(part), "ordered": ""}
    answer = await execution.wait_signal("customer.answer")
    return {"of": await words(part), "ordered": await order(part, count) if answer else ""}


if __name__ == "__main__":
    Agent("shop").run(handle)
