"""Backups, on the command line."""
