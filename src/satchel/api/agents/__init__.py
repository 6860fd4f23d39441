"""Whole agents, from Python."""
