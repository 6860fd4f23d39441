"""Erasing and redacting records, and reports on what is held about a person."""
