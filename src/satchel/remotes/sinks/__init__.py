"""Places that a bank's log is followed into."""
