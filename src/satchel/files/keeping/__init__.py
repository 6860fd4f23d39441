"""What a store keeps and how it changes: manifest, folder, audit, commits."""
