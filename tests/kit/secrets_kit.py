"""Secrets of every kind, generated at run time, so that no file contains one."""

import base64
import random
import string
from collections.abc import Callable

_MIXED = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits
_HEX = "0123456789abcdef"


class Maker:
    """Generates secrets; the same seed gives the same ones."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - nothing here is secret

    def body(self, length: int, letters: str = _MIXED) -> str:
        """Return a number of letters, with a few digits at the front."""
        digits = "7392" if "7" in letters and length > 8 else ""
        return digits + "".join(self._random.choices(letters, k=length - len(digits)))

    def base64(self, size: int) -> str:
        """Return a number of random bytes in base64."""
        return base64.b64encode(self._random.randbytes(size)).decode()

    def make(self, kind: str) -> tuple[str, str]:
        """Return a text with a secret of a kind, and the secret."""
        before, secret, after = _MAKE[kind](self)
        return before + secret + after, secret

    def pem(self, kind: str = "RSA ") -> str:
        """Return a private key in PEM."""
        lines = [self.base64(48) for _ in range(6)]
        name = f"{kind}PRIVATE " + "KEY"
        return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])


def _plain(*parts: str | Callable[[Maker], str]) -> Callable[[Maker], tuple[str, str, str]]:
    """Return a generator of sentences with a secret of these parts."""

    def make(maker: Maker) -> tuple[str, str, str]:
        secret = "".join(part if isinstance(part, str) else part(maker) for part in parts)
        return "She wrote ", secret, ", and that it is new."

    return make


def _after(
    before: str, after: str, *parts: str | Callable[[Maker], str]
) -> Callable[..., tuple[str, str, str]]:
    def make(maker: Maker) -> tuple[str, str, str]:
        return before, _plain(*parts)(maker)[1], after

    return make


def _some(length: int, letters: str = _MIXED) -> Callable[[Maker], str]:
    return lambda maker: maker.body(length, letters)


def _jwt(maker: Maker) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(b'{"sub":"7392","name":"ada"}').decode().rstrip("=")
    return f"{head}.{body}.{maker.body(43)}"


def _bot(maker: Maker) -> str:
    number = base64.b64encode(b"412345678901234567").decode().rstrip("=")
    return f"{number}.{maker.body(6)}.{maker.body(38)}"


def card(start: str = "4539", length: int = 16, separator: str = "") -> str:
    """Return a card number with a right check digit, in groups of four."""
    digits = (start + "71938264507182736")[: length - 1]
    total = sum(
        int(digit) if place % 2 else sum(divmod(2 * int(digit), 10))
        for place, digit in enumerate(reversed(digits))
    )
    digits += str(-total % 10)
    return separator.join(digits[at : at + 4] for at in range(0, length, 4))


_MAKE: dict[str, Callable[[Maker], tuple[str, str, str]]] = {
    "private-key": lambda maker: ("Kept here: ", maker.pem(), "\nfor the server"),
    "aws-access-key": _plain("AK", "IA", _some(16, _UPPER)),
    "aws-secret-key": _after("aws_secret_" + "access_key = ", "\n", _some(40)),
    "google-api-key": _plain("AI", "za", _some(35)),
    "google-oauth": _plain("GOC", "SPX-", _some(28)),
    "azure-storage-key": _after(
        "AccountName=x;Account" + "Key=", ";E=1", lambda maker: maker.base64(64)
    ),
    "azure-sas": _after("https://x.test/c?sv=2024&si" + "g=", "", _some(43), "%3D"),
    "digitalocean-token": _plain("do", "p_v1_", _some(64, _HEX)),
    "databricks-token": _plain("da", "pi", _some(32, _HEX)),
    "github-token": _plain("gh", "p_", _some(36)),
    "gitlab-token": _plain("gl", "pat-", _some(20)),
    "npm-token": _plain("np", "m_", _some(36)),
    "pypi-token": _plain("py", "pi-AgEIcHlwaS5vcmc", _some(60)),
    "docker-token": _plain("dc", "kr_pat_", _some(27)),
    "openai-key": _plain("s", "k-proj-", _some(60)),
    "anthropic-key": _plain("s", "k-ant-api03-", _some(93)),
    "openrouter-key": _plain("s", "k-or-v1-", _some(64, _HEX)),
    "letta-key": _plain("s", "k-let-", _some(60)),
    "sk-key": _plain("s", "k-", _some(48)),
    "mem0-key": _plain("m", "0-", _some(40)),
    "huggingface-token": _plain("h", "f_", _some(34)),
    "groq-key": _plain("gs", "k_", _some(52)),
    "xai-key": _plain("xa", "i-", _some(80)),
    "perplexity-key": _plain("pp", "lx-", _some(48)),
    "replicate-token": _plain("r", "8_", _some(37)),
    "nvidia-key": _plain("nv", "api-", _some(64)),
    "pinecone-key": _plain("pc", "sk_", _some(60)),
    "langsmith-key": _plain("ls", "v2_pt_", _some(32, _HEX), "_", _some(10, _HEX)),
    "tavily-key": _plain("tv", "ly-", _some(32)),
    "slack-token": _plain("xo", "xb-", "739281734650-", "839201928374-", _some(24)),
    "slack-webhook": _after(
        "https://hooks.slack" + ".com/services/",
        " posts it",
        "T",
        _some(9),
        "/B",
        _some(9),
        "/",
        _some(24),
    ),
    "discord-token": _plain(_bot),
    "discord-webhook": _after(
        "https://discord" + ".com/api/webhooks/739281734650123456/", " posts it", _some(68)
    ),
    "telegram-token": _plain("739281734", ":A", "A", _some(33)),
    "twilio-key": _plain("S", "K", _some(32, _HEX)),
    "sendgrid-key": _plain("S", "G.", _some(22), ".", _some(43)),
    "mailgun-key": _plain("ke", "y-", _some(32, _HEX)),
    "stripe-key": _plain("s", "k_live_", _some(24)),
    "square-token": _plain("sq", "0atp-", _some(22)),
    "shopify-token": _plain("sh", "pat_", _some(32, _HEX)),
    "linear-key": _plain("li", "n_api_", _some(40)),
    "notion-token": _plain("nt", "n_", _some(46)),
    "figma-token": _plain("fi", "gd_", _some(40)),
    "atlassian-token": _plain("AT", "ATT3", _some(170), "=", _some(8, "0123456789ABCDEF")),
    "airtable-token": _plain("pa", "t", _some(14), ".", _some(64, _HEX)),
    "supabase-key": _plain("sb", "p_", _some(40, _HEX)),
    "vault-token": _plain("hv", "s.", _some(24)),
    "grafana-token": _plain("gl", "sa_", _some(41)),
    "sentry-token": _plain("sn", "tryu_", _some(64, _HEX)),
    "age-key": _plain("AGE-SECRET-", "KEY-1", _some(58, _UPPER)),
    "jwt": _plain(_jwt),
    "card-number": _plain(lambda _: card(separator=" ")),
    "url-password": _after("postgres://ada:", "@db.test/x", _some(12)),
    "basic-auth": _after(
        "Authorization: Ba" + "sic ",
        "\n",
        lambda maker: base64.b64encode(f"ada:{maker.body(9)}".encode()).decode(),
    ),
    "bearer-token": _after("curl -H 'Authorization: Bea" + "rer ", "'", _some(32)),
    "assigned-secret": _after("pass" + 'word = "', '"', _some(12)),
}
