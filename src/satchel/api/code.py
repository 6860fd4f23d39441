"""The code that a bank's memories speak of: read from source trees, and asked about."""

from typing import Unpack

from satchel.actions.coding import asking, indexing
from satchel.actions.coding.asking import CodeFound, CodeShown, Wanted
from satchel.actions.coding.indexing import CodeIndexed, CodeTree, IndexOptions
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import Permission
from satchel.api.arguments import CodeQueryArguments, FilePath, Roots
from satchel.api.asked import known
from satchel.api.lifetime import Lifetime


class Code:
    """The code graph of one bank; ``Bank.code`` gives it."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime) -> None:
        self._opened = opened
        self._lifetime = lifetime

    def index(
        self,
        path: FilePath,
        *,
        name: str | None = None,
        rebuild: bool = False,
        allowed_roots: Roots | None = None,
        allow_uncontained: bool = False,
    ) -> CodeIndexed:
        """Bring what the bank knows of a source tree up to date; only what changed is read.

        Args:
            path: A folder of source files, or an index in SCIP (``.scip``).
            name: What to call the tree; the folder's name when None.
            rebuild: Read all of it again.
            allowed_roots: Folders that it may be in; see ``Bank.export``.
            allow_uncontained: That it may be anywhere, if no roots are set; see ``Bank.export``.

        Raises:
            ContainmentError: If it is not where it may be, or nothing says where.
            InputError: If it cannot be opened, or there is nothing in it that can be read.
            MissingExtraError: If all of it needs what is not installed.
        """
        permission = Permission(allowed_roots=allowed_roots, allow_uncontained=allow_uncontained)
        options = IndexOptions(name=name, rebuild=rebuild, permission=permission)
        with self._lifetime.use():
            return indexing.index_code(self._opened, str(path), options)

    def query(self, **wanted: Unpack[CodeQueryArguments]) -> CodeFound:
        """Answer a question: which symbols there are, who calls whom, and so on.

        Args:
            **wanted: What is asked for: see ``CodeQueryArguments``.

        Raises:
            UnknownCodeError: If the bank has no code, or not what the question is about.
            UsageError: If the question cannot be meant.
        """
        asked = Wanted(**known("query", wanted, CodeQueryArguments))
        with self._lifetime.use():
            return asking.query_code(self._opened, asked)

    def show(self, symbol: str, *, limit: int = 20) -> list[CodeShown]:
        """Return what is known of a symbol: of each, where several fit what is said.

        Args:
            symbol: An id; ``PATH#NAME``; or a name with as much before it as one likes.
            limit: Callers of each that are given at most.

        Raises:
            UnknownCodeError: If there is none.
        """
        with self._lifetime.use():
            return asking.show_code(self._opened, symbol, limit=limit)

    def trees(self) -> list[CodeTree]:
        """Return the source trees of the bank, by name."""
        with self._lifetime.use():
            return indexing.code_trees(self._opened)

    def drop(self, name: str, *, dry_run: bool = False) -> CodeTree:
        """Forget a source tree; the files themselves are not touched.

        Raises:
            UnknownCodeError: If there is none of that name.
        """
        with self._lifetime.use():
            return indexing.drop_code(self._opened, name, dry_run=dry_run)
