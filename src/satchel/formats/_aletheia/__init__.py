"""Agent files as records, and back; see ``formats.aletheia``."""
