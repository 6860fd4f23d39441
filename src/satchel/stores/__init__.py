"""Stores: SQLite, PostgreSQL, LadybugDB, and one in memory."""
