"""Reads an archive with cognee's own archive modules, and writes it again.

Run it with the Python of ``benchmarks.peers.environment("cognee")``: ``IN.cogx.tar.gz
OUT.cogx.tar.gz``. The whole of Cognee is 177 packages; its modules for archives need one of them,
so they are imported without the packages that they lie in.
"""

import json
import sys
import sysconfig
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType


def main(source: str, target: str) -> None:
    """Unpack, validate each record, write it, pack again; print how many there were."""
    folder = Path(sysconfig.get_path("purelib"), "cognee")
    for name in ("cognee", "cognee.modules", "cognee.modules.migration"):
        package = ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    cogx = import_module("cognee.modules.migration.cogx")
    archive = import_module("cognee.modules.migration.archive")
    with tempfile.TemporaryDirectory() as scratch, Path(source).open("rb") as stream:
        unpacked = archive.unpack_archive(stream, Path(scratch) / "in")
        manifest = cogx.read_manifest(unpacked)
        count = 0
        with cogx.COGXArchiveWriter(Path(scratch) / "out", manifest.source_system) as writer:
            for record in cogx.read_archive(unpacked):
                count += 1
                if record.kind == "raw_node":
                    writer.write_raw_node(record.properties)
                else:
                    writer.write(record)
        archive.pack_archive(Path(scratch) / "out", target)
    print(json.dumps({"records": count, "counts": manifest.counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
