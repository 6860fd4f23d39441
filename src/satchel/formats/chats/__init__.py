"""Formats that are what a chat product or a coding agent keeps of its conversations."""
