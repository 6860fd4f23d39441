"""Taking memory out of a bank, comparing it, and bringing two copies of a bank together."""
