"""The MCP server at the gateway's door: the same requests are let in as elsewhere."""
