"""SQLite files: those of other programs, and temporary ones of our own."""
