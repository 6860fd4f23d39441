"""The administration of a store: banks, their settings, statistics and health."""
