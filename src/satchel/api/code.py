"""The code that a bank's memories speak of: indexed from source trees, and queried."""

from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import method
from satchel.api.parts import BankPart

if TYPE_CHECKING:
    from satchel.actions.coding import asking, indexing
else:
    asking = lazy("satchel.actions.coding.asking")
    indexing = lazy("satchel.actions.coding.indexing")


class Code(BankPart):
    """The code graph of one bank; ``Bank.code`` gives it."""

    index = method(indexing.index_code)
    query = method(asking.query_code)
    show = method(asking.show_code)
    trees = method(indexing.code_trees)
    drop = method(indexing.drop_code)
