"""Tools for a runner: ``agentic-kernel runner --tools my_tools:tools --server URL``."""

from agentic_kernel_engine.seams import ToolContext, ToolError, tool

STOCK = {"bolt": 40, "nut": 12}
ORDERS: dict[str, int] = {}


@tool(effect="read")
def stock(part: str) -> int:
    """The number of a part in stock."""
    if part not in STOCK:
        raise ToolError(f"there is no part {part!r}; use one of {', '.join(STOCK)}")
    return STOCK[part]


@tool(effect="write", idempotent=True)
def order(part: str, count: int, context: ToolContext) -> str:
    """Order some of a part; the same call again orders nothing more."""
    ORDERS.setdefault(context.key, count)
    return f"order {context.key}: {ORDERS[context.key]} of {part}"


tools = [stock, order]

if __name__ == "__main__":
    print(", ".join(each.name for each in tools))
