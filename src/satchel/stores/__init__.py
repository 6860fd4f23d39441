"""Stores: where records are kept and found again; one module or package each."""
