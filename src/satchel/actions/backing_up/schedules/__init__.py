"""When backups are due, in the foreground and for the system."""
