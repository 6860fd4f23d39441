"""Thin doors to the actions: nothing is decided here."""
