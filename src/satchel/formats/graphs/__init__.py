"""Formats of memory servers: graphs of Graphiti, Zep and Cognee, and the passages of Letta."""
