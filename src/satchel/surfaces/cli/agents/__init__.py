"""``satchel agent``: whole agents."""
