"""Commands for rehydration, quarantine and promotion."""
