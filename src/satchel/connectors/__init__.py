"""Products that are talked to where they live: one module a product, listed and written.

A connector stands on the format of the same product, so that a record has one mapping, whether it
is read from an export or from the product itself.
"""
