"""One value, one byte string: canonical JSON and CBOR, and strict reading of both."""
