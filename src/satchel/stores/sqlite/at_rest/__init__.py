"""Encryption at rest: the key beside the file, what it opens, and changing it."""
