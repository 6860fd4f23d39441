"""Distillers that come along."""
