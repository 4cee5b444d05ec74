"""An MCP server made with the official SDK, which speaks the current protocol.

Usage: sdk.py stdio, or sdk.py PORT for streamable HTTP on loopback.
"""

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sdk")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def speaks(ctx: Context) -> str:
    """Says which protocol is spoken."""
    return str(ctx.request_context.protocol_version)


@server.tool()
async def grow(ctx: Context) -> str:
    """Gets another tool."""

    @server.tool()
    def multiply(a: int, b: int) -> int:
        """Multiplies two numbers."""
        return a * b

    server.remove_tool("add")
    await ctx.notify_tools_changed()
    return "grown"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
