"""Paths that somebody names: where they may lead."""
