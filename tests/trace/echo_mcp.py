"""An MCP server with one tool, which tells the `traceparent` that it was called with."""

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("echo")


@server.tool()
def seen(ctx: Context) -> str:
    """Tells the trace context of its call."""
    meta = ctx.request_context.meta
    fields = meta if isinstance(meta, dict) else dict(meta or {})
    return str(fields.get("traceparent"))


server.run("stdio")
