"""Makes and reads LangGraph's stores and checkpoints with the real library, offline.

Run it with the Python of ``benchmarks.peers.environment("langgraph")``:
``make FOLDER COUNT`` makes ``store.db`` with COUNT items and ``checkpoints.sqlite`` with
conversations, forks and a store of its own; ``read FILE OUT`` writes all items of a store as JSON;
``add FILE`` adds one item to a store; ``threads FILE OUT`` writes every state as JSON;
``postgres-make ADDRESS COUNT`` fills a store with vectors in a database, ``postgres-read ADDRESS
OUT`` writes its items and vectors as JSON.
"""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict


def make(folder: Path, count: int) -> None:
    """Make both databases."""
    folder.mkdir(parents=True, exist_ok=True)
    with _store(folder / "store.db") as store:
        _fill(store, count)
    _conversations(folder / "checkpoints.sqlite")
    with _store(folder / "checkpoints.sqlite") as store:
        store.put(("memories", "rosa"), "tea", {"text": "Drinks tea.", "kind": "preference"})


def _fill(store: Any, count: int) -> None:
    for number in range(count):
        namespace, key, value = _item(number)
        store.put(namespace, key, value, ttl=1440 if number % 7 == 3 else None)
        if number % 11 == 5:
            store.put(namespace, key, {**value, "changed": True})
        if number % 13 == 12:
            store.delete(namespace, key)


def _item(number: int) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    odd = ("", " \u4eac\u90fd\U0001f680", '\n"quoted"\\', " e\u0301", "$int")[number % 5]
    text = f"Fact {number}.{odd}"
    user = ("rosa", "kenta", "a/b")[number % 3]
    values: list[dict[str, Any]] = [
        {"kind": "Memory", "content": {"content": text}},
        {"text": text, "topic": "n", "big": 2**60, "$int": "5"},
        {"kind": "UserProfile", "content": {"name": user, "age": 3, "tags": ["x"], "n": None}},
        {"memory": text, "kind": "note", "nested": {"a": [1, 2.5, {"b": None}]}},
        {"kind": "Memory", "content": {"content": text}, "importance": 0.5},
        {"content": {"text": [text]}},
    ]
    return (
        ("memories", user, *(["work"] if number % 4 == 1 else [])),
        f"k/{number}",
        values[number % 6],
    )


def _store(path: Path) -> Any:
    from langgraph.store.sqlite import SqliteStore  # type: ignore[import-not-found]

    class Opened:
        def __enter__(self) -> Any:
            self.way = SqliteStore.from_conn_string(str(path))
            store = self.way.__enter__()
            store.setup()
            return store

        def __exit__(self, *problem: object) -> None:
            self.way.__exit__(*problem)

    return Opened()


def _graph(path: Path) -> Any:
    from langchain_core.messages import AIMessage, ToolMessage  # type: ignore[import-not-found]
    from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
    from langgraph.graph import START, StateGraph  # type: ignore[import-not-found]
    from langgraph.graph.message import add_messages  # type: ignore[import-not-found]

    class State(TypedDict, total=False):
        messages: Annotated[list[Any], add_messages]
        working: dict[str, Any]
        summary: str

    def agent(state: State) -> dict[str, Any]:
        said = state["messages"][-1].content
        turn = state.get("working", {}).get("turn", 0) + 1
        answers: list[Any] = [AIMessage(f"Noted: {said}", id=f"a{turn}-{len(said)}")]
        if "weather" in str(said):
            call = {"name": "weather", "args": {"city": "Lisbon"}, "id": f"c{turn}"}
            answers = [
                AIMessage("", tool_calls=[call], id=f"t{turn}"),
                ToolMessage("Sunny.", tool_call_id=f"c{turn}", name="weather", id=f"r{turn}"),
                *answers,
            ]
        return {"messages": answers, "working": {"turn": turn}, "summary": f"{turn} turns"}

    graph = StateGraph(State)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    connection = sqlite3.connect(path, check_same_thread=False)
    return graph.compile(checkpointer=SqliteSaver(connection)), connection


def _conversations(path: Path) -> None:
    graph, connection = _graph(path)
    for thread, texts in (
        ("trip", ["I want a trip in May", "Check the weather in Lisbon", "Book the train"]),
        ("tea", ["How long does green tea need?"]),
    ):
        config = {"configurable": {"thread_id": thread}}
        for number, text in enumerate(texts):
            message = {"role": "user", "content": text, "id": f"{thread}-{number}"}
            graph.invoke({"messages": [message]}, config)
    history = list(graph.get_state_history({"configurable": {"thread_id": "trip"}}))
    early = next(state for state in reversed(history) if len(state.values.get("messages", ())) == 2)
    other = {"role": "user", "content": "In June, rather", "id": "trip-other"}
    graph.invoke({"messages": [other]}, early.config)
    connection.close()


def _items(store: Any) -> list[Any]:
    items: list[Any] = []
    for namespace in store.list_namespaces(limit=100_000):
        for item in store.search(namespace, limit=1_000_000):
            if item.namespace == namespace:
                shown = item.dict()
                shown.pop("score", None)
                items.append(shown)
    return sorted(items, key=lambda item: (item["namespace"], item["key"]))


def read(path: Path, out: Path) -> None:
    """Write all items."""
    with _store(path) as store:
        found = _items(store)
    out.write_text(json.dumps(found, ensure_ascii=False, indent=1), "utf-8")


def _at(address: str) -> Any:
    from langgraph.store.postgres import PostgresStore  # type: ignore[import-not-found]

    def embedded(texts: list[str]) -> list[list[float]]:
        return [[len(text) / 7, text.count("e") / 3, 0.1] for text in texts]

    index = {"dims": 3, "embed": embedded, "fields": ["text", "content.content"]}
    return PostgresStore.from_conn_string(address, index=index)


def postgres_make(address: str, count: int) -> None:
    """Fill a store in a database, created if it is missing."""
    with _at(address) as store:
        store.setup()
        _fill(store, count)


def postgres_read(address: str, out: Path) -> None:
    """Write all items and the vectors of all."""
    with _at(address) as store:
        contents: dict[str, Any] = {"items": [{**item, **_times(item)} for item in _items(store)]}
        with store._cursor() as cursor:  # noqa: SLF001 - the library shows none
            names = "prefix, key, field_name, embedding::text"
            cursor.execute(f"SELECT {names} FROM store_vectors ORDER BY 1, 2, 3")  # noqa: S608
            contents["vectors"] = [list(row.values()) for row in cursor]
    out.write_text(json.dumps(contents, ensure_ascii=False, indent=1), "utf-8")


def _times(item: dict[str, Any]) -> dict[str, str]:
    return {name: str(item[name]) for name in ("created_at", "updated_at")}


def add(path: Path) -> None:
    """Add an item."""
    with _store(path) as store:
        store.put(("memories", "rosa"), "new", {"kind": "Memory", "content": {"content": "New."}})


def threads(path: Path, out: Path) -> None:
    """Write every state: its id, its parent's, and the words of its messages."""
    graph, connection = _graph(path)
    states: dict[str, Any] = {}
    for thread in ("trip", "tea"):
        for state in graph.get_state_history({"configurable": {"thread_id": thread}}):
            parent = (state.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            states[state.config["configurable"]["checkpoint_id"]] = {
                "thread": thread,
                "parent": parent,
                "messages": [message.content for message in state.values.get("messages", ())],
                "summary": state.values.get("summary"),
            }
    connection.close()
    out.write_text(json.dumps(states, ensure_ascii=False, indent=1), "utf-8")


if __name__ == "__main__":
    verb, *given = sys.argv[1:]
    if verb == "make":
        make(Path(given[0]), int(given[1]))
    elif verb == "read":
        read(Path(given[0]), Path(given[1]))
    elif verb == "add":
        add(Path(given[0]))
    elif verb == "postgres-make":
        postgres_make(given[0], int(given[1]))
    elif verb == "postgres-read":
        postgres_read(given[0], Path(given[1]))
    else:
        threads(Path(given[0]), Path(given[1]))
