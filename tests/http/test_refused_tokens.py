"""Whatever is wrong with a token, or with the proof of who has it, opens nothing at any door."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from http_kit import ELSEWHERE, HERE, Served, proof_action, serving
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import TextContent
from token_kit import HOLDER, OUTSIDER, chain_of, child_of, grant, later

from satchel.api.store import Satchel, open_store
from satchel.bank.machine_keys import signing_key
from satchel.bank.operations import RememberOptions
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.token_chain import Chain, link_tokens, prove
from satchel.crypto.token_chain import open_chain as chain_in
from satchel.crypto.tokens import Permission, Tags, Wildcard, signed_token
from satchel.http.gateway import PROOF, TOKEN
from satchel.mcp.principal import ToolCaller
from satchel.mcp.tools import CoreTools
from satchel.model.values import now
from satchel.recall.search import RecallOptions

TEA, SAFE = "Ada drinks tea", "the safe is behind the stove"
DRINKS = Tags(any_of=("drinks",))
EVERYTHING = sorted(Permission)


@dataclass(frozen=True)
class Place:
    """A gateway over a bank with two memories, and what tokens for it are made with."""

    served: Served
    bank: str
    other: str
    owner: SigningKey

    def chain(self, *scope: Any, **members: Any) -> Chain:
        """Return a token that holds, but for what is given."""
        said: dict[str, Any] = {
            "bank": self.bank,
            "owner": self.owner,
            "permissions": EVERYTHING,
            "issued_at": now(),
            "expires_at": later(1, since=now()),
        }
        return chain_of(*scope, **said | members)

    @property
    def memories(self) -> int:
        """How many there are."""
        found: int = self.served.client().get(f"/v1/banks/{self.bank}").json()["memories"]
        return found


@pytest.fixture
def place(own_home: object) -> Iterator[Place]:
    """The gateway, and the ids of two banks."""
    del own_home
    with serving() as served:
        client = served.client()
        bank, other = (
            client.post("/v1/banks", json={"name": name}).json()["id"] for name in ("one", "other")
        )
        for text, tags in ((TEA, ["drinks"]), (SAFE, ["secret"])):
            said = {"text": text, "tags": tags}
            assert client.post(f"/v1/banks/{bank}/entries", json=said).status_code == 201
        yield Place(served, bank, other, signing_key(load_settings())[0])


# -- the doors ------------------------------------------------------------------------------------


def over_http(place: Place, tool: str, **said: Any) -> httpx.Request:
    """Return a request of the gateway's own."""
    path = f"/v1/banks/{said.pop('bank', place.bank)}"
    client = place.served.client(ELSEWHERE)
    if tool == "remember":
        return client.build_request("POST", f"{path}/entries", json=said)
    if tool == "forget":
        return client.build_request("DELETE", f"{path}/entries/{said['ids'][0]}")
    body = {"task": said["task"], "budget": 1000}
    return client.build_request("POST", f"{path}/rehydrate", json=body)


def over_mcp(place: Place, tool: str, **said: Any) -> httpx.Request:
    """Return the same as a call of a tool, as the streamable transport has it."""
    call = {"name": tool, "arguments": {"bank": place.bank, **said}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    return place.served.client(ELSEWHERE).build_request("POST", "/mcp", json=body, headers=headers)


Door = Callable[..., httpx.Request]
DOORS = pytest.mark.parametrize("door", [over_http, over_mcp], ids=["http", "mcp"])


def code_of(answer: httpx.Response) -> str | None:
    """Return why something was refused; None where it was not."""
    said = answer.json()
    if answer.status_code >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        return str(said["code"])
    if "jsonrpc" not in said or not said["result"].get("isError"):
        return None
    text = str(said["result"]["content"][0]["text"])
    return text.partition(": ")[2].partition(":")[0]


def in_base64(value: Any) -> str:
    """Return JSON as a header has it."""
    return base64.b64encode(msgspec.json.encode(value)).decode()


def presented(
    place: Place, request: httpx.Request, chain: Chain, key: SigningKey | None = HOLDER
) -> httpx.Request:
    """Return a request with a token, and a proof by a key."""
    request.headers[TOKEN] = base64.b64encode(chain.encoded()).decode()
    if key is not None:
        request.headers[PROOF] = in_base64(proof(place, request, chain, key))
    return request


def proof(
    place: Place, request: httpx.Request, chain: Chain, key: SigningKey = HOLDER, **other: Any
) -> dict[str, Any]:
    """Return a proof that holds for a request, but for what is given."""
    usual = proof_action(request.method, request.url.raw_path.decode(), request.content)
    verifier = other.get("verifier", place.served.gateway.verifier)
    return prove(chain, key, verifier, other.get("at", now()), other.get("asked", usual))


def send(place: Place, request: httpx.Request, address: str = ELSEWHERE) -> httpx.Response:
    """Return the answer to a request."""
    return place.served.client(address).send(request)


# -- what holds -----------------------------------------------------------------------------------


@DOORS
def test_a_token_that_holds_opens_what_it_covers(door: Door, place: Place) -> None:
    """So that the refusals below are for what is wrong, and not for everything."""
    chain = place.chain(DRINKS)
    woken = send(place, presented(place, door(place, "rehydrate", task="tea stove"), chain))
    assert code_of(woken) is None, woken.text
    assert TEA in woken.text
    assert "behind the" not in woken.text
    kept = door(place, "remember", text="green", tags=["drinks"])
    assert code_of(send(place, presented(place, kept, chain))) is None
    assert place.memories == 3


# -- what is wrong with how it is presented -------------------------------------------------------

Change = Callable[[Place, httpx.Request, Chain], None]


def _proved(**other: Any) -> Change:
    def change(place: Place, request: httpx.Request, chain: Chain) -> None:
        said = {name: made(place) if callable(made) else made for name, made in other.items()}
        request.headers[PROOF] = in_base64(proof(place, request, chain, **said))

    return change


def _header(name: str, value: str | None) -> Change:
    def change(_: Place, request: httpx.Request, __: Chain) -> None:
        if value is None:
            del request.headers[name]
        else:
            request.headers[name] = value

    return change


def _damaged(place: Place, request: httpx.Request, chain: Chain) -> None:
    made = proof(place, request, chain)
    made["signatures"][0]["sig"] = made["signatures"][0]["sig"][:-2] + "00"
    request.headers[PROOF] = in_base64(made)


def _raised(_: Place, request: httpx.Request, chain: Chain) -> None:
    """Change what a token says, and keep its signature."""
    value = chain.value()
    value["tokens"][0]["payload"]["expires_at"] = later(80 * 24, since=now())
    request.headers[TOKEN] = base64.b64encode(canonical(value)).decode()


def _too_many(_: Place, request: httpx.Request, chain: Chain) -> None:
    value = chain.value()
    value["tokens"] *= 9
    request.headers[TOKEN] = base64.b64encode(canonical(value)).decode()


def _spaced(_: Place, request: httpx.Request, chain: Chain) -> None:
    text = json.dumps(chain.value(), indent=1)
    request.headers[TOKEN] = base64.b64encode(text.encode()).decode()


def _of_another_token(place: Place, request: httpx.Request, _: Chain) -> None:
    request.headers[PROOF] = in_base64(proof(place, request, place.chain(DRINKS)))


def _for_another_body(_: Place, request: httpx.Request, __: Chain) -> None:
    request.stream = httpx.ByteStream(request.content.replace(b"coffee", b"poison"))
    request._content = request.content.replace(b"coffee", b"poison")


def _for_another_target(_: Place, request: httpx.Request, __: Chain) -> None:
    request.url = request.url.copy_with(query=b"x=1")


WRONG_PROOFS: dict[str, tuple[Change, str]] = {
    "no proof": (_header(PROOF, None), "token.refused"),
    "a proof by an outsider": (_proved(key=OUTSIDER), "token.refused"),
    "a proof by the owner": (_proved(key=lambda place: place.owner), "token.refused"),
    "a proof for another server": (_proved(verifier=OUTSIDER.did), "token.refused"),
    "a proof for another token": (_of_another_token, "token.refused"),
    "a proof for another body": (_for_another_body, "token.refused"),
    "a proof for another target": (_for_another_target, "token.refused"),
    "a proof for another method": (
        _proved(asked=proof_action("GET", "/mcp", b"")),
        "token.refused",
    ),
    "a proof for a whole session": (_proved(asked=("session", {})), "token.refused"),
    "an old proof": (_proved(at=lambda _: later(seconds=-90, since=now())), "token.expired"),
    "a proof of tomorrow": (_proved(at=lambda _: later(24, since=now())), "token.expired"),
    "a damaged proof": (_damaged, "token.refused"),
    "a proof that is not base64": (_header(PROOF, "%%%"), "input.malformed"),
    "a proof that is not JSON": (_header(PROOF, "eHg="), "input.malformed"),
    "a proof that is no object": (_header(PROOF, in_base64([1])), "input.malformed"),
    "a proof that is too long": (_header(PROOF, "A" * 40_000), "input.malformed"),
    "a token that is not base64": (_header(TOKEN, "%%%"), "input.malformed"),
    "a token that is not JSON": (_header(TOKEN, "eHg="), "input.malformed"),
    "a token that is empty": (_header(TOKEN, ""), "input.malformed"),
    "a token of another format": (_header(TOKEN, in_base64({"format": "x"})), "input.malformed"),
    "a token of another spelling": (_spaced, "input.malformed"),
    "a token that was altered": (_raised, "token.refused"),
    "a chain that is too long": (_too_many, "input.limit"),
}


@DOORS
@pytest.mark.parametrize("address", [ELSEWHERE, HERE], ids=["elsewhere", "here"])
def test_attack_a_token_presented_wrongly(door: Door, place: Place, address: str) -> None:
    """Nothing is written, from this machine neither: it is no owner who presents one."""
    found = dict[str, str | None]()
    for wrong, (change, _) in WRONG_PROOFS.items():
        chain = place.chain(Wildcard())
        request = presented(place, door(place, "remember", text="coffee"), chain)
        change(place, request, chain)
        found[wrong] = code_of(send(place, request, address))
    assert found == {wrong: code for wrong, (_, code) in WRONG_PROOFS.items()}
    assert place.memories == 2


@DOORS
def test_attack_a_request_that_was_overheard_is_sent_again(door: Door, place: Place) -> None:
    """To the same door, or to the other one."""
    chain = place.chain(Wildcard())
    request = presented(place, door(place, "remember", text="coffee"), chain)
    assert code_of(send(place, request)) is None
    assert code_of(send(place, request)) == "token.refused"
    for other in (over_http, over_mcp):
        again = other(place, "remember", text="coffee again")
        again.headers[TOKEN], again.headers[PROOF] = request.headers[TOKEN], request.headers[PROOF]
        assert code_of(send(place, again)) == "token.refused"
    assert place.memories == 3


# -- what is wrong with the token -----------------------------------------------------------------


def _revoked(place: Place) -> Chain:
    client = place.served.client()
    said = {"audience": HOLDER.did, "everything": True, "permissions": EVERYTHING}
    made = client.post(f"/v1/banks/{place.bank}/tokens", json=said).json()
    (line,) = client.get(f"/v1/banks/{place.bank}/tokens").json()["tokens"]
    where = f"/v1/banks/{place.bank}/tokens/{line['id']}/revoke"
    assert client.post(where, json={}).is_success
    return chain_in(canonical(made["token"]))


def _child_of_a_revoked_one(place: Place) -> Chain:
    return child_of(
        _revoked(place),
        permissions=["read", "write"],
        audience=HOLDER.did,
        issued_at=now(),
        expires_at=later(0.5, since=now()),
    )


def _widened(chain: Chain) -> Chain:
    """Hand on more than there is, as somebody does who does not use this program."""
    said = {"permissions": EVERYTHING, "issued_at": now(), "expires_at": _at(1)}
    child = signed_token(chain.bank, HOLDER, grant(**said), chain.leaf.id)
    return link_tokens((*chain.tokens, child), {})


def _at(hours: float) -> str:
    return later(hours, since=now())


Make = Callable[[Place], Chain]
WRONG_TOKENS: dict[str, tuple[Make, str]] = {
    "of another bank": (lambda place: place.chain(bank=place.other), "token.refused"),
    "of no bank": (lambda place: place.chain(bank="blake3:" + "11" * 32), "token.refused"),
    "signed by an outsider": (lambda place: place.chain(owner=OUTSIDER), "token.refused"),
    "signed by its holder": (lambda place: place.chain(owner=HOLDER), "token.refused"),
    "that has ended": (
        lambda place: place.chain(issued_at=_at(-2), expires_at=_at(-1)),
        "token.expired",
    ),
    "that has not begun": (
        lambda place: place.chain(not_before=_at(1), expires_at=_at(2)),
        "token.expired",
    ),
    "that was revoked": (_revoked, "token.revoked"),
    "made of one that was revoked": (_child_of_a_revoked_one, "token.revoked"),
    "made of one that has ended": (
        lambda place: _widened(place.chain(issued_at=_at(-2), expires_at=_at(-1))),
        "token.expired",
    ),
    "bound to an artifact": (
        lambda place: place.chain(root_hash="blake3:" + "33" * 32),
        "token.refused",
    ),
    "without the permission": (
        lambda place: place.chain(permissions=["read", "export", "redact"]),
        "permission.refused",
    ),
    "that hands on more than it has": (
        lambda place: _widened(place.chain(permissions=["read"])),
        "permission.refused",
    ),
    "for other memories": (lambda place: place.chain(DRINKS), "permission.refused"),
}


@DOORS
def test_attack_an_invalid_token(door: Door, place: Place) -> None:
    """Whoever presents it proved to be its audience, and that is not enough."""
    found = dict[str, str | None]()
    for wrong, (make, _) in WRONG_TOKENS.items():
        request = door(place, "remember", text="coffee", tags=["hot"])
        refused = send(place, presented(place, request, make(place)))
        found[wrong] = code_of(refused)
        assert SAFE not in refused.text
    assert found == {wrong: code for wrong, (_, code) in WRONG_TOKENS.items()}
    assert place.memories == 2


def test_attack_an_invalid_token_over_standard_streams(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host that was started with it gets the same answer, whatever key it was given."""
    chains = {wrong: make(place) for wrong, (make, _) in WRONG_TOKENS.items()}
    found = dict[str, str]()
    monkeypatch.setenv("SATCHEL_SIGNING_KEY", base64.b64encode(bytes([2]) * 32).decode())
    for wrong, chain in chains.items():
        settings = load_settings(token=chain.encoded().decode().strip())
        with open_store(Satchel, settings) as satchel:
            tools = CoreTools(ToolCaller(satchel=satchel, settings=settings))
            with pytest.raises(ToolError) as caught:
                tools.remember(place.bank, RememberOptions("coffee", tags=["hot"]))
        found[wrong] = str(caught.value).partition(":")[0]
    assert found == {wrong: code for wrong, (_, code) in WRONG_TOKENS.items()}
    assert place.memories == 2


def test_a_host_with_a_token_sees_what_it_covers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over standard streams; the bank is the token's where none is named."""
    monkeypatch.setenv("SATCHEL_SIGNING_KEY", base64.b64encode(bytes([2]) * 32).decode())
    settings = load_settings(token=place.chain(DRINKS).encoded().decode().strip())
    with open_store(Satchel, settings) as satchel:
        tools = CoreTools(ToolCaller(satchel=satchel, settings=settings))
        woken = tools.recall(None, RecallOptions("tea stove"))
        (text,) = woken.content
        assert isinstance(text, TextContent)
        assert TEA in text.text
        assert "behind the" not in text.text
        stored = tools.remember(None, RememberOptions("green", tags=["drinks"]))
        assert (stored.structured_content or {})["is_new"]


@DOORS
def test_attack_another_bank_than_the_tokens_is_asked_for(door: Door, place: Place) -> None:
    """And what a token does not cover is answered like what was never there."""
    request = door(place, "rehydrate", task="tea", bank=place.other)
    refused = send(place, presented(place, request, place.chain()))
    assert code_of(refused) == "token.refused"
    client = place.served.client()
    listed = client.get(f"/v1/banks/{place.bank}/entries", params={"tags": "secret"}).json()
    said = set[str]()
    for there in (listed["memories"][0]["id"], "blake3:" + "0" * 64):
        request = presented(place, door(place, "forget", ids=[there]), place.chain(DRINKS))
        answer = send(place, request)
        assert code_of(answer) == "memory.unknown"
        said.add(answer.text.replace(there, "ID").replace(there.removeprefix("blake3:"), "ID"))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("list_banks", {}),
        ("pam_import_memory", {"artifact": "eHg="}),
        ("session_fork", {"session": "talk"}),
    ],
)
def test_what_is_the_owners_is_refused_to_a_holder_over_mcp(
    place: Place, tool: str, said: dict[str, Any]
) -> None:
    """Whatever the token opens."""
    call = {"name": tool, "arguments": said}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    client = place.served.client(ELSEWHERE)
    request = client.build_request("POST", "/mcp", json=body, headers=headers)
    assert code_of(send(place, presented(place, request, place.chain()))) == "permission.refused"


def test_mcp_requires_authentication(own_home: object) -> None:
    """From elsewhere; with an operator's token, from here as well; a page of another site never."""
    del own_home
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    operator = "what the operator shows"
    with serving(admin=operator) as served:
        for address in (ELSEWHERE, HERE):
            client = served.client(address)
            assert client.post("/mcp", json=body, headers=headers).status_code == 403
            shown = headers | {"Authorization": f"Bearer {operator}"}
            assert client.post("/mcp", json=body, headers=shown).status_code == 200
            elsewhere = shown | {"Origin": "https://evil.example"}
            assert client.post("/mcp", json=body, headers=elsewhere).status_code == 403
            rebound = shown | {"Host": "evil.example"}
            assert client.post("/mcp", json=body, headers=rebound).status_code == 421
            assert client.get("/mcp").status_code == 405


def test_attack_a_broken_token_beside_the_operators_is_not_passed_over(own_home: object) -> None:
    """Who presents a token is its holder, and nobody else."""
    del own_home
    operator = "what the operator shows"
    with serving(admin=operator) as served:
        headers = {"Authorization": f"Bearer {operator}", TOKEN: "eHg="}
        assert served.client().get("/v1/banks", headers=headers).json()["code"] == "input.malformed"
