"""The MCP server: the same questions as on the command line, for agents.

Needs the extra ``mcp``. Only ``gambrel mcp`` imports what is in here.
"""
