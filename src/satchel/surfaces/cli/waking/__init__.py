"""Commands around waking up: memory in front of a model, quarantine, promotion."""
