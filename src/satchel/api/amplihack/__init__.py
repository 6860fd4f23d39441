"""amplihack's own names, in Python."""
