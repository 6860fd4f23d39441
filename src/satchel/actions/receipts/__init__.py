"""Receipts: made of what was done, signed, kept, found again."""
