"""``bank.sessions`` and its async version."""

import asyncio
import inspect

import pytest

import satchel
from satchel import aio
from satchel.api.asynchronous import Sessions as Awaited
from satchel.api.bank import Sessions
from satchel.errors import MalformedError, UnknownSessionError


def test_a_session_is_recorded_forked_and_distilled() -> None:
    """With checkpoints, state, rename and archive."""
    with satchel.Satchel.open() as store:
        sessions = store.bank().sessions
        made = sessions.record(
            [{"role": "user", "content": "I live in Oslo."}], name="trip", agent="a"
        )
        sessions.record(
            [{"role": "assistant", "content": "Good."}, {"note": "kind"}], session="trip"
        )
        sessions.set("trip", working_state={"step": 1})
        point = sessions.checkpoint("trip", name="p")
        sessions.record([{"role": "user", "content": "We decided to walk."}], session="trip")
        forked = sessions.fork("trip", at="p", name="other")
        assert [one.content for one in sessions.messages(forked.id)] == ["I live in Oslo.", "Good."]
        assert sessions.show("other").state.working_state == {"step": 1}
        assert sessions.diff("trip", "other").common == 2
        assert len(sessions.distill("trip").memories) == 2
        assert [one.id for one in sessions.checkpoints("other")] == [point.id]
        assert sessions.rename("other", "new").name == "new"
        assert sessions.archive("new").archived
        assert [one.id for one in sessions.list()] == [made.session]
        with pytest.raises(UnknownSessionError):
            sessions.show("nobody")
        with pytest.raises(MalformedError):
            sessions.record([{"content": "who?"}], session="trip")


def test_async_sessions_page_messages_and_fork_concurrently() -> None:
    """Long conversations are read in pages, and forks are created concurrently."""

    async def run() -> None:
        async with aio.Satchel.open() as store:
            sessions = (await store.bank()).sessions
            said = [{"role": "user", "content": str(n)} for n in range(600)]
            made = await sessions.record(said, name="long")
            found = [one.content async for one in sessions.messages(made.session)]
            assert found == [str(n) for n in range(600)]
            forks = await asyncio.gather(*(sessions.fork("long", at=str(n)) for n in range(1, 9)))
            assert [one.messages for one in forks] == list(range(1, 9))

    asyncio.run(run())


def test_every_method_has_an_async_version_with_the_same_parameters() -> None:
    """In ``satchel.aio``."""
    names = {name for name in dir(Sessions) if not name.startswith("_")}
    assert {name for name in dir(Awaited) if not name.startswith("_")} == names
    for name in names - {"messages"}:
        ours, theirs = getattr(Sessions, name), getattr(Awaited, name)
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
