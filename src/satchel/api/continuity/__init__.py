"""Conversations, from Python."""
