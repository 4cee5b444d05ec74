"""An MCP server made with the official SDK, which speaks the current protocol.

Usage: sdk.py stdio, or sdk.py PORT for streamable HTTP on loopback.
"""

import sys
from typing import Annotated

import anyio
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

server = MCPServer("sdk")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def speaks(ctx: Context) -> str:
    """Says which protocol is spoken."""
    return str(ctx.request_context.protocol_version)


class Seats(BaseModel):
    seats: int = Field(ge=1, le=9, description="How many seats?")


def how_many() -> Elicit[Seats]:
    return Elicit("How many seats?", Seats)


@server.tool()
def book(seats: Annotated[ElicitationResult[Seats], Resolve(how_many)]) -> str:
    """Books seats, once it knows how many."""
    if seats.action == "accept":
        return f"booked {seats.data.seats}"
    return f"not booked: {seats.action}"


@server.tool()
async def count(ctx: Context) -> str:
    """Counts to three."""
    for step in range(1, 4):
        await ctx.report_progress(step, 3, f"says {step}")
        # Far longer than a caller waits between two of them, however busy the machine is.
        await anyio.sleep(1)
    return "three"


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
