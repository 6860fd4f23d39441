"""What an operator does: migrating, following a bank, and what holds for one."""
