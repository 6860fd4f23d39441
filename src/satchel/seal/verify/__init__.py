"""Verification: numbered steps, distinct outcomes, a result that names what was not verified."""
