"""Near-duplicates: memories that say the same in other words."""
