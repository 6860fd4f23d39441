"""Backups of the store and its memory files, as an operator asks for them."""
