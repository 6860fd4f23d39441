"""The extractor that is carried along: rules, and short lists of names."""
