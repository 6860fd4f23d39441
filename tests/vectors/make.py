"""Write the test vectors beside this file.

Everything is fixed (seeds, nonces, times), so a second run changes no byte. The generator uses
public libraries only and never the package under test: what it writes is a second opinion.
"""

from pathlib import Path

from makers import artifacts, canonical, hashes, records, refused, signatures, tree

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write every vector file and say where."""
    for maker in (hashes, canonical, refused, records, tree, signatures, artifacts):
        for path in maker.write(HERE):
            print(path.relative_to(HERE))


if __name__ == "__main__":
    main()
