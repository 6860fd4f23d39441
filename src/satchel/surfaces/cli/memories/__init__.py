"""The verbs on single memories."""
