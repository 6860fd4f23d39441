"""Sealed files: their body, statement and verification."""

ARTIFACT_FORMAT = "satchel/1"
"""What an artifact says that it is."""
