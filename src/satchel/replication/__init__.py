"""Copies of banks and stores: pull, push, merge, migration, sinks."""
