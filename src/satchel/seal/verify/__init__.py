"""Verification: numbered steps, distinct outcomes, a result that says what was not looked at."""
