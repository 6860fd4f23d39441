"""What is reached outside: listeners, and places that a bank's log is followed into."""
