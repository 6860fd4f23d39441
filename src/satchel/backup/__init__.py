"""Backups: runs, packs, destinations, retention, restores, drills."""
