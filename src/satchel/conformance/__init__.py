"""Test suites for the formats, stores, connectors and rerankers of other packages."""
