"""Sealed files: their body, statement and verification."""

ARTIFACT_FORMAT = "satchel/1"
"""Name and version of the format, in statements and preambles."""
