"""Clients that are slow, or gone: nothing of the server's is theirs for long."""
