"""The pieces of a backup: how they are named, compressed and encrypted."""
