"""The commands for conversations."""
