"""Invalid tokens and invalid proofs of possession are refused by HTTP and MCP."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from http_kit import ELSEWHERE, HERE, ServedGateway, proof_action, running_gateway
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
class TokenCase:
    """A gateway over a bank with two memories, and the key that issues its tokens."""

    served: ServedGateway
    bank: str
    other: str
    owner: SigningKey

    def chain(self, *scope: Any, **members: Any) -> Chain:
        """Return a valid token, except for the given members."""
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
        """The number of memories of the bank."""
        found: int = self.served.client().get(f"/v1/banks/{self.bank}").json()["memories"]
        return found


@pytest.fixture
def token_case(own_home: object) -> Iterator[TokenCase]:
    """A gateway over two banks."""
    del own_home
    with running_gateway() as served:
        client = served.client()
        bank, other = (
            client.post("/v1/banks", json={"name": name}).json()["id"] for name in ("one", "other")
        )
        for text, tags in ((TEA, ["drinks"]), (SAFE, ["secret"])):
            said = {"text": text, "tags": tags}
            assert client.post(f"/v1/banks/{bank}/entries", json=said).status_code == 201
        yield TokenCase(served, bank, other, signing_key(load_settings())[0])


# -- the interfaces -------------------------------------------------------------------------------


def over_http(token_case: TokenCase, tool: str, **said: Any) -> httpx.Request:
    """Return a request to a route of the gateway."""
    path = f"/v1/banks/{said.pop('bank', token_case.bank)}"
    client = token_case.served.client(ELSEWHERE)
    if tool == "remember":
        return client.build_request("POST", f"{path}/entries", json=said)
    if tool == "forget":
        return client.build_request("DELETE", f"{path}/entries/{said['ids'][0]}")
    body = {"task": said["task"], "budget": 1000}
    return client.build_request("POST", f"{path}/rehydrate", json=body)


def over_mcp(token_case: TokenCase, tool: str, **said: Any) -> httpx.Request:
    """Return the same as a tool call in the streamable HTTP transport."""
    call = {"name": tool, "arguments": {"bank": token_case.bank, **said}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    return token_case.served.client(ELSEWHERE).build_request(
        "POST", "/mcp", json=body, headers=headers
    )


Interface = Callable[..., httpx.Request]
INTERFACES = pytest.mark.parametrize("interface", [over_http, over_mcp], ids=["http", "mcp"])


def code_of(answer: httpx.Response) -> str | None:
    """Return the error code of a refusal; None for a success."""
    said = answer.json()
    if answer.status_code >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        return str(said["code"])
    if "jsonrpc" not in said or not said["result"].get("isError"):
        return None
    text = str(said["result"]["content"][0]["text"])
    return text.partition(": ")[2].partition(":")[0]


def in_base64(value: Any) -> str:
    """Return JSON as a header value."""
    return base64.b64encode(msgspec.json.encode(value)).decode()


def presented(
    token_case: TokenCase, request: httpx.Request, chain: Chain, key: SigningKey | None = HOLDER
) -> httpx.Request:
    """Return a request with a token, and a proof by a key."""
    request.headers[TOKEN] = base64.b64encode(chain.encoded()).decode()
    if key is not None:
        request.headers[PROOF] = in_base64(proof(token_case, request, chain, key))
    return request


def proof(
    token_case: TokenCase,
    request: httpx.Request,
    chain: Chain,
    key: SigningKey = HOLDER,
    **other: Any,
) -> dict[str, Any]:
    """Return a valid proof for a request, except for the given members."""
    usual = proof_action(request.method, request.url.raw_path.decode(), request.content)
    verifier = other.get("verifier", token_case.served.gateway.verifier)
    return prove(chain, key, verifier, other.get("at", now()), other.get("asked", usual))


def send(token_case: TokenCase, request: httpx.Request, address: str = ELSEWHERE) -> httpx.Response:
    """Return the answer to a request."""
    return token_case.served.client(address).send(request)


# -- valid tokens ---------------------------------------------------------------------------------


@INTERFACES
def test_a_valid_token_is_accepted_within_its_scope(
    interface: Interface, token_case: TokenCase
) -> None:
    """Otherwise the refusals below would prove nothing."""
    chain = token_case.chain(DRINKS)
    woken = send(
        token_case,
        presented(token_case, interface(token_case, "rehydrate", task="tea stove"), chain),
    )
    assert code_of(woken) is None, woken.text
    assert TEA in woken.text
    assert "behind the" not in woken.text
    kept = interface(token_case, "remember", text="green", tags=["drinks"])
    assert code_of(send(token_case, presented(token_case, kept, chain))) is None
    assert token_case.memories == 3


# -- invalid presentations ------------------------------------------------------------------------

Change = Callable[[TokenCase, httpx.Request, Chain], None]


def _proved(**other: Any) -> Change:
    def change(token_case: TokenCase, request: httpx.Request, chain: Chain) -> None:
        said = {name: made(token_case) if callable(made) else made for name, made in other.items()}
        request.headers[PROOF] = in_base64(proof(token_case, request, chain, **said))

    return change


def _header(name: str, value: str | None) -> Change:
    def change(_: TokenCase, request: httpx.Request, __: Chain) -> None:
        if value is None:
            del request.headers[name]
        else:
            request.headers[name] = value

    return change


def _damaged(token_case: TokenCase, request: httpx.Request, chain: Chain) -> None:
    made = proof(token_case, request, chain)
    made["signatures"][0]["sig"] = made["signatures"][0]["sig"][:-2] + "00"
    request.headers[PROOF] = in_base64(made)


def _extended(_: TokenCase, request: httpx.Request, chain: Chain) -> None:
    """Extend the expiry of a token, and keep its signature."""
    value = chain.value()
    value["tokens"][0]["payload"]["expires_at"] = later(80 * 24, since=now())
    request.headers[TOKEN] = base64.b64encode(canonical(value)).decode()


def _too_many(_: TokenCase, request: httpx.Request, chain: Chain) -> None:
    value = chain.value()
    value["tokens"] *= 9
    request.headers[TOKEN] = base64.b64encode(canonical(value)).decode()


def _spaced(_: TokenCase, request: httpx.Request, chain: Chain) -> None:
    text = json.dumps(chain.value(), indent=1)
    request.headers[TOKEN] = base64.b64encode(text.encode()).decode()


def _of_another_token(token_case: TokenCase, request: httpx.Request, _: Chain) -> None:
    request.headers[PROOF] = in_base64(proof(token_case, request, token_case.chain(DRINKS)))


def _for_another_body(_: TokenCase, request: httpx.Request, __: Chain) -> None:
    request.stream = httpx.ByteStream(request.content.replace(b"coffee", b"poison"))
    request._content = request.content.replace(b"coffee", b"poison")


def _for_another_target(_: TokenCase, request: httpx.Request, __: Chain) -> None:
    request.url = request.url.copy_with(query=b"x=1")


WRONG_PROOFS: dict[str, tuple[Change, str]] = {
    "no proof": (_header(PROOF, None), "token.refused"),
    "a proof by an outsider": (_proved(key=OUTSIDER), "token.refused"),
    "a proof by the owner": (_proved(key=lambda token_case: token_case.owner), "token.refused"),
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
    "a proof of the future": (_proved(at=lambda _: later(24, since=now())), "token.expired"),
    "a damaged proof": (_damaged, "token.refused"),
    "a proof that is not base64": (_header(PROOF, "%%%"), "input.malformed"),
    "a proof that is not JSON": (_header(PROOF, "eHg="), "input.malformed"),
    "a proof that is not an object": (_header(PROOF, in_base64([1])), "input.malformed"),
    "a proof that is too long": (_header(PROOF, "A" * 40_000), "input.malformed"),
    "a token that is not base64": (_header(TOKEN, "%%%"), "input.malformed"),
    "a token that is not JSON": (_header(TOKEN, "eHg="), "input.malformed"),
    "a token that is empty": (_header(TOKEN, ""), "input.malformed"),
    "a token of another format": (_header(TOKEN, in_base64({"format": "x"})), "input.malformed"),
    "a token of another spelling": (_spaced, "input.malformed"),
    "a token that was altered": (_extended, "token.refused"),
    "a chain that is too long": (_too_many, "input.limit"),
}


@INTERFACES
@pytest.mark.parametrize("address", [ELSEWHERE, HERE], ids=["elsewhere", "here"])
def test_attack_a_token_is_presented_with_an_invalid_proof(
    interface: Interface, token_case: TokenCase, address: str
) -> None:
    """Nothing is written, from this machine neither: a presented token replaces ownership."""
    found = dict[str, str | None]()
    for wrong, (change, _) in WRONG_PROOFS.items():
        chain = token_case.chain(Wildcard())
        request = presented(token_case, interface(token_case, "remember", text="coffee"), chain)
        change(token_case, request, chain)
        found[wrong] = code_of(send(token_case, request, address))
    assert found == {wrong: code for wrong, (_, code) in WRONG_PROOFS.items()}
    assert token_case.memories == 2


@pytest.mark.parametrize("text", ["%%%", "AAAA", "eHg=", "A" * 90_000, in_base64([1])])
@pytest.mark.parametrize(("header", "field"), [(TOKEN, "token"), (PROOF, "proof")])
def test_an_unreadable_token_or_proof_is_named(
    token_case: TokenCase, header: str, field: str, text: str
) -> None:
    """Not only "not JSON", which could be the body."""
    chain = token_case.chain(Wildcard())
    request = presented(token_case, over_http(token_case, "remember", text="coffee"), chain)
    request.headers[header] = text
    answer = send(token_case, request).json()
    assert answer["code"] == "input.malformed"
    assert answer["field"].split("/")[0] == field


@INTERFACES
def test_attack_a_recorded_request_is_replayed(interface: Interface, token_case: TokenCase) -> None:
    """To the same interface, and to the other one."""
    chain = token_case.chain(Wildcard())
    request = presented(token_case, interface(token_case, "remember", text="coffee"), chain)
    assert code_of(send(token_case, request)) is None
    assert code_of(send(token_case, request)) == "token.refused"
    for other in (over_http, over_mcp):
        again = other(token_case, "remember", text="coffee again")
        again.headers[TOKEN], again.headers[PROOF] = request.headers[TOKEN], request.headers[PROOF]
        assert code_of(send(token_case, again)) == "token.refused"
    assert token_case.memories == 3


# -- invalid tokens -------------------------------------------------------------------------------


def _revoked(token_case: TokenCase) -> Chain:
    client = token_case.served.client()
    said = {"audience": HOLDER.did, "everything": True, "permissions": EVERYTHING}
    made = client.post(f"/v1/banks/{token_case.bank}/tokens", json=said).json()
    (line,) = client.get(f"/v1/banks/{token_case.bank}/tokens").json()["tokens"]
    where = f"/v1/banks/{token_case.bank}/tokens/{line['id']}/revoke"
    assert client.post(where, json={}).is_success
    return chain_in(canonical(made["token"]))


def _child_of_a_revoked_token(token_case: TokenCase) -> Chain:
    return child_of(
        _revoked(token_case),
        permissions=["read", "write"],
        audience=HOLDER.did,
        issued_at=now(),
        expires_at=later(0.5, since=now()),
    )


def _extended_child(chain: Chain) -> Chain:
    """Attenuate a token to more than it allows, as another program could."""
    said = {"permissions": EVERYTHING, "issued_at": now(), "expires_at": _at(1)}
    child = signed_token(chain.bank, HOLDER, grant(**said), chain.leaf.id)
    return link_tokens((*chain.tokens, child), {})


def _at(hours: float) -> str:
    return later(hours, since=now())


Make = Callable[[TokenCase], Chain]
WRONG_TOKENS: dict[str, tuple[Make, str]] = {
    "of another bank": (
        lambda token_case: token_case.chain(bank=token_case.other),
        "token.refused",
    ),
    "of an unknown bank": (
        lambda token_case: token_case.chain(bank="blake3:" + "11" * 32),
        "token.refused",
    ),
    "signed by an outsider": (lambda token_case: token_case.chain(owner=OUTSIDER), "token.refused"),
    "signed by its holder": (lambda token_case: token_case.chain(owner=HOLDER), "token.refused"),
    "that is expired": (
        lambda token_case: token_case.chain(issued_at=_at(-2), expires_at=_at(-1)),
        "token.expired",
    ),
    "that is not valid yet": (
        lambda token_case: token_case.chain(not_before=_at(1), expires_at=_at(2)),
        "token.expired",
    ),
    "that was revoked": (_revoked, "token.revoked"),
    "a child of a revoked token": (_child_of_a_revoked_token, "token.revoked"),
    "a child of an expired token": (
        lambda token_case: _extended_child(token_case.chain(issued_at=_at(-2), expires_at=_at(-1))),
        "token.expired",
    ),
    "bound to an artifact": (
        lambda token_case: token_case.chain(root_hash="blake3:" + "33" * 32),
        "token.refused",
    ),
    "without the permission": (
        lambda token_case: token_case.chain(permissions=["read", "export", "redact"]),
        "permission.refused",
    ),
    "a child that allows more": (
        lambda token_case: _extended_child(token_case.chain(permissions=["read"])),
        "permission.refused",
    ),
    "for other memories": (lambda token_case: token_case.chain(DRINKS), "permission.refused"),
}


@INTERFACES
def test_attack_an_invalid_token_is_presented_with_a_valid_proof(
    interface: Interface, token_case: TokenCase
) -> None:
    """Possession alone is not sufficient."""
    found = dict[str, str | None]()
    for wrong, (make, _) in WRONG_TOKENS.items():
        request = interface(token_case, "remember", text="coffee", tags=["hot"])
        refused = send(token_case, presented(token_case, request, make(token_case)))
        found[wrong] = code_of(refused)
        assert SAFE not in refused.text
    assert found == {wrong: code for wrong, (_, code) in WRONG_TOKENS.items()}
    assert token_case.memories == 2


def test_attack_an_invalid_token_is_used_over_standard_streams(
    token_case: TokenCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host that was started with it gets the same error."""
    chains = {wrong: make(token_case) for wrong, (make, _) in WRONG_TOKENS.items()}
    found = dict[str, str]()
    monkeypatch.setenv("SATCHEL_SIGNING_KEY", base64.b64encode(bytes([2]) * 32).decode())
    for wrong, chain in chains.items():
        settings = load_settings(token=chain.encoded().decode().strip())
        with open_store(Satchel, settings) as satchel:
            tools = CoreTools(ToolCaller(satchel=satchel, settings=settings))
            with pytest.raises(ToolError) as caught:
                tools.remember(token_case.bank, RememberOptions("coffee", tags=["hot"]))
        found[wrong] = str(caught.value).partition(":")[0]
    assert found == {wrong: code for wrong, (_, code) in WRONG_TOKENS.items()}
    assert token_case.memories == 2


def test_a_host_with_a_token_reads_within_its_scope(
    token_case: TokenCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over standard streams; without a named bank, the token's is used."""
    monkeypatch.setenv("SATCHEL_SIGNING_KEY", base64.b64encode(bytes([2]) * 32).decode())
    settings = load_settings(token=token_case.chain(DRINKS).encoded().decode().strip())
    with open_store(Satchel, settings) as satchel:
        tools = CoreTools(ToolCaller(satchel=satchel, settings=settings))
        woken = tools.recall(None, RecallOptions("tea stove"))
        (text,) = woken.content
        assert isinstance(text, TextContent)
        assert TEA in text.text
        assert "behind the" not in text.text
        stored = tools.remember(None, RememberOptions("green", tags=["drinks"]))
        assert (stored.structured_content or {})["is_new"]


@INTERFACES
def test_attack_a_token_is_used_for_another_bank(
    interface: Interface, token_case: TokenCase
) -> None:
    """Memories outside the scope are answered like unknown ones."""
    request = interface(token_case, "rehydrate", task="tea", bank=token_case.other)
    refused = send(token_case, presented(token_case, request, token_case.chain()))
    assert code_of(refused) == "token.refused"
    client = token_case.served.client()
    listed = client.get(f"/v1/banks/{token_case.bank}/entries", params={"tags": "secret"}).json()
    said = set[str]()
    for there in (listed["memories"][0]["id"], "blake3:" + "0" * 64):
        request = presented(
            token_case, interface(token_case, "forget", ids=[there]), token_case.chain(DRINKS)
        )
        answer = send(token_case, request)
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
def test_owner_tools_are_refused_to_token_holders_over_mcp(
    token_case: TokenCase, tool: str, said: dict[str, Any]
) -> None:
    """With any token."""
    call = {"name": tool, "arguments": said}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    client = token_case.served.client(ELSEWHERE)
    request = client.build_request("POST", "/mcp", json=body, headers=headers)
    assert (
        code_of(send(token_case, presented(token_case, request, token_case.chain())))
        == "permission.refused"
    )


def test_mcp_requires_authentication(own_home: object) -> None:
    """For remote clients; with an operator's token for all; pages of other sites are refused."""
    del own_home
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    operator = "the token of the operator"
    with running_gateway(admin=operator) as served:
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


def test_attack_an_invalid_token_is_sent_with_the_operators_token(own_home: object) -> None:
    """A request with a token is the holder's."""
    del own_home
    operator = "the token of the operator"
    with running_gateway(admin=operator) as served:
        headers = {"Authorization": f"Bearer {operator}", TOKEN: "eHg="}
        assert served.client().get("/v1/banks", headers=headers).json()["code"] == "input.malformed"
