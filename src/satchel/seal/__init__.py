"""The seal: canonical bytes, ids, the Merkle tree, signatures, artifacts and their verification."""

ARTIFACT_FORMAT = "satchel/1"
"""What an artifact says that it is."""
