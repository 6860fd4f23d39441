"""Erasing: which records go, getting rid of them everywhere, and looking whether they are gone."""
