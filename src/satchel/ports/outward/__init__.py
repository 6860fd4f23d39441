"""What leaves a bank for others to look at: events that listeners are told, rows of a sink."""
