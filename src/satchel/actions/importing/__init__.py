"""Bringing memory in: files, live products, and what was begun before."""
