"""Test suites that formats, stores, connectors and rerankers of others can run."""
