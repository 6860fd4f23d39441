"""When backups are due, and how they went."""
