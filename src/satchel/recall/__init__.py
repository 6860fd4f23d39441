"""Recall: nomination, ranking, fusion, vectors."""
