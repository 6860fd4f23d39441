"""Files, folders, locks, temporary space and processes."""
