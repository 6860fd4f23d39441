"""Backups: what is in a destination, how it gets there, whether it holds, and the way back."""
