"""Receipts: accounts of transfers, signed."""
