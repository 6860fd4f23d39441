"""Whole agents: memory, conversations, files and settings, exported and imported."""
