"""Live products, read and written where they store memory: one module a product.

A connector uses the format of the same product, so that a record has one mapping, whether it is
read from an export or from the product itself.
"""
