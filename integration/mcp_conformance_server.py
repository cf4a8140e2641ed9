"""An MCP server with the tools that MCP's conformance kit asks for, to stand behind the proxy.

`python mcp_conformance_server.py` speaks over its standard streams. It has what the kit's server
scenarios name as far as it concerns tools.
"""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ADDRESS = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}
NESTED = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
IMAGE = types.ImageContent(
    type="image", mime_type="image/png",
    data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
)  # fmt: skip
AUDIO = types.AudioContent(type="audio", mime_type="audio/wav", data="UklGRiQAAABXQVZFZm10IBAAAAAB")
RESOURCE = types.EmbeddedResource(
    type="resource",
    resource=types.TextResourceContents(
        uri="test://embedded", mime_type="text/plain", text="This is an embedded resource."
    ),
)
CONTENTS: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [types.TextContent(type="text", text="This is a simple text response.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [RESOURCE],
    "test_multiple_content_types": [types.TextContent(type="text", text="Text"), IMAGE, RESOURCE],
    "test_error_handling": [types.TextContent(type="text", text="This fails on purpose.")],
    "test_tool_with_progress": [types.TextContent(type="text", text="done")],
    "json_schema_2020_12_tool": [types.TextContent(type="text", text="ok")],
    "test_reconnection": [types.TextContent(type="text", text="ok")],
}
READS = types.ToolAnnotations(read_only_hint=True)


async def listed(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=name, description=f"The kit calls {name}.", annotations=READS,
                input_schema=NESTED if name.startswith("json_schema") else {"type": "object"},
            )
            for name in CONTENTS
        ]
    )  # fmt: skip


async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "test_tool_with_progress":
        for done in (0, 50, 100):
            await context.session.report_progress(done, 100, f"{done} of 100")
    return types.CallToolResult(
        content=CONTENTS[params.name], is_error=params.name == "test_error_handling"
    )


async def main() -> None:
    server: Server[Any] = Server("kit", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
