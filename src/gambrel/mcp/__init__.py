"""The tools that agents call: an MCP server over the same functions."""
