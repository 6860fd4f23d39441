"""Keys of a bank that count no more: succeeded, retired, revoked."""
