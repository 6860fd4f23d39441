"""``satchel code``."""
