"""The account of a transfer: what was read, planned, written, read back, lost and refused."""
