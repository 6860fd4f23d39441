"""What goes through a whole log: reading a copy again, and following it into a sink."""
