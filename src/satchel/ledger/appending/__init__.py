"""What goes into a log: appends that wait for their turn, and imports as batches."""
