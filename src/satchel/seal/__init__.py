"""The seal: canonical bytes, ids, the Merkle tree, signatures, artifacts and their verification."""
