"""The right of access: everything that a bank holds about somebody."""
