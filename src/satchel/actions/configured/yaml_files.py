"""Reading YAML: plain values only, with the line of each key.

What makes YAML dangerous is refused: tags that build objects, anchors (a few lines of them can
stand for billions of values), keys that are given twice, depth without end.
"""

from typing import TYPE_CHECKING, Any

from satchel.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    import yaml

Lines = dict[str, int]
"""Line numbers, from 1, by the path of a key such as ``banks.ada.profile``."""

DEEPEST = 32
"""Tables within tables."""

_PLAIN = {"null": None, "true": True, "false": False}
_TAG = "tag:yaml.org,2002:"


def read_yaml(text: str, file: str) -> tuple[Any, Lines]:
    """Return the value of a YAML document, and where its keys stand.

    Raises:
        ConfigError: If what reads YAML is not installed.
        MalformedError: If it is not YAML, or more than plain values.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            "reading YAML needs an extra",
            file=file,
            hint="Install it: pip install 'satchel[yaml]'; or write the file as TOML.",
        ) from None
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _require_plain(event, yaml, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: Lines = {}
        value = {} if node is None else _Reading(yaml.SafeLoader(""), file, lines).value(node, "")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it cannot be read"
        line = None if mark is None else mark.line + 1
        raise MalformedError(f"not YAML: {what}", file=file, line=line) from None
    except (RecursionError, ValueError) as error:
        raise MalformedError(f"not YAML: {error}", file=file) from None
    return value, lines


def _require_plain(event: Any, yaml: Any, file: str) -> None:
    line = event.start_mark.line + 1 if event.start_mark is not None else None
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise MalformedError(
            "anchors and aliases are not supported",
            file=file,
            line=line,
            hint="Write the value out.",
        )
    tag = getattr(event, "tag", None)
    if tag is not None and tag != "!":
        raise MalformedError(f"the tag {tag} is not read", file=file, line=line)


class _Reading:
    """One document on its way to plain values."""

    def __init__(self, loader: "yaml.SafeLoader", file: str, lines: Lines) -> None:
        self._loader = loader
        self._file = file
        self._lines = lines

    def value(self, node: Any, path: str, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise self._refused("nested too deeply", node)
        if node.id == "scalar":
            return self._scalar(node)
        if node.id == "sequence":
            return [self.value(each, path, depth + 1) for each in node.value]
        found = dict[str, Any]()
        for key, held in node.value:
            name = key.value if key.id == "scalar" else None
            if name is None or key.tag == _TAG + "merge":
                raise self._refused("not a valid key name", key)
            if name in found:
                raise self._refused(f"{name} occurs twice", key)
            where = f"{path}.{name}" if path else name
            self._lines[where] = key.start_mark.line + 1
            found[name] = self.value(held, where, depth + 1)
        return found

    def _scalar(self, node: Any) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("int", "float", "bool", "null"):
            # YAML 1.1 takes `no` for a truth value; 1.2 and people who write names do not.
            if kind == "bool" and node.value.lower() not in _PLAIN:
                return node.value
            return self._loader.construct_object(node)
        return node.value

    def _refused(self, what: str, node: Any) -> MalformedError:
        return MalformedError(what, file=self._file, line=node.start_mark.line + 1)
