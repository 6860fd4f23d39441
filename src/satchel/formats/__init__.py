"""Formats: one module each; the module's name is the format's name."""
