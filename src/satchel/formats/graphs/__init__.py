"""Formats that are a graph: what Graphiti, Zep and Cognee keep, and folders of such files."""
