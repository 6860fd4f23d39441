"""What is kept of how backups went: the last run to each destination, and signed receipts."""
