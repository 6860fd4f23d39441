"""What agent hosts ask for at the start and at the end of a session."""
