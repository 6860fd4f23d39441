// Capability tokens of a bank, and its owners.

import { button, check, chip, copyable, el, empty, facts, field, json, mono, more, notes, number, options, quiet, short, soft, table, when } from "./elements.js";
import { asks, into, told } from "./feedback.js";
import { get, path, post } from "./requests.js";

const PERMISSIONS = ["read", "write", "derive", "redact", "export", "rehydrate"];
const TYPES = ["semantic", "episodic", "procedural", "working", "identity"];
const LASTS = [["1h", "an hour"], ["24h", "a day"], ["7d", "a week"], ["30d", "30 days"], ["90d", "90 days"]];

const words = (input) => input.value.split(/[,\s]+/).filter(Boolean);
const boxes = (names, on) => names.map((name) => el("input", { type: "checkbox", name, checked: on.includes(name) }));
const chosen = (inputs) => inputs.filter((one) => one.checked).map((one) => one.name);
const group = (said, inputs) => el("fieldset", {}, el("legend", {}, said), inputs.map((one) => check(one, one.name)));

export function tokens(bank) {
  const list = el("div"), made = el("section", { "aria-live": "polite" }), verdict = el("section", { "aria-live": "polite" });
  const past = el("input", { type: "checkbox", onchange: () => show() });
  const show = () => into(list, async () => {
    const { tokens: found } = await get(path("banks", bank, "tokens"), { all: past.checked ? "true" : "" });
    if (!found.length) return empty("There are no active tokens.", "A token grants someone else limited access to a part of this bank, for a limited time.");
    return table(["audience", "permissions", "scope", "expires", "state", ""], found.map((one) => [
      one.audience ? mono(one.audience) : "bearer", one.permissions.join(", "), one.scope.join("; "), when(one.expires_at),
      [chip(one.state ?? "", one.state === "active" ? "good" : ""), el("div", { class: "mono soft" }, short(one.id))],
      one.state === "active" ? quiet("Revoke", () => revoke(bank, one, show), { "aria-label": `Revoke ${short(one.id)}` }) : "",
    ]));
  });
  show();
  return [
    soft("A token grants permissions on a part of this bank until it expires. Only the holder of its key can use it."),
    el("div", { class: "row" }, button("Issue a token", () => issue(bank, made, show)), check(past, "Include expired and revoked")),
    made, list,
    el("h2", {}, "Inspect a token"),
    inspect(bank, verdict), verdict,
  ];
}

function issue(bank, made, show) {
  const audience = el("input", { name: "audience", maxlength: 300, autocomplete: "off", placeholder: "did:key:…" });
  const may = boxes(PERMISSIONS, ["read"]), parts = boxes(TYPES, []);
  const tags = el("input", { name: "tags", autocomplete: "off" }), none = el("input", { name: "none", autocomplete: "off" });
  const lasts = el("select", { name: "expires" }, options(LASTS, "24h"));
  const bearer = el("input", { type: "checkbox", name: "bearer", onchange: () => { audience.disabled = bearer.checked; } });
  asks({
    heading: "Issue a token", does: "Issue",
    said: "Only the holder of the recipient's key can use it. A bearer token can be used by anybody who has it, for one day at most.",
    rows: [
      field("Key of the recipient", audience), check(bearer, "Bearer token"), group("Permissions", may), group("Types (none: all)", parts),
      el("div", { class: "row" }, field("With any of these tags", tags), field("Without these tags", none)), field("Expires after", lasts),
    ],
    act: async () => {
      const components = chosen(parts), any = words(tags), without = words(none);
      const found = await post(path("banks", bank, "tokens"), {
        audience: bearer.checked ? null : audience.value.trim() || null, bearer: bearer.checked, permissions: chosen(may), types: components, any_tags: any, no_tags: without,
        everything: !components.length && !any.length && !without.length, expires: lasts.value,
      });
      made.replaceChildren(el("div", { class: "issued" }, issued(found)));
      told("Token issued.");
      show();
    },
  });
}

function issued(found) {
  const text = JSON.stringify(found.token);
  return [
    el("h2", { class: "good" }, "Issued"),
    soft("It is shown only once. Give it to its recipient", found.audience ? "." : ". Anybody who has it can use it."),
    copyable(text, "The token", 6, told),
    chainOf(found.tokens),
  ];
}

const chainOf = (chain) => table(["issuer", "audience", "permissions", "scope", "from", "until"], chain.map((one) => [
  mono(one.issuer), one.audience ? mono(one.audience) : "bearer", one.permissions.join(", "), one.scope.join("; "),
  when(one.not_before), when(one.expires_at)]), "Delegation chain, from the owner's token");

function inspect(bank, verdict) {
  const text = el("textarea", { name: "token", rows: 4, required: true, maxlength: 1000000, spellcheck: "false" });
  return el("form", { onsubmit: (event) => {
    event.preventDefault();
    into(verdict, async () => {
      const found = await post(path("banks", bank, "tokens", "verify"), { token: text.value.trim() });
      return [
        el("p", {}, chip(found.valid ? "valid" : "not valid", found.valid ? "good" : "bad"), " ", found.problem ?? ""),
        chainOf(found.chain.tokens),
        facts({ "revocations checked in": (found.checked ?? []).join("; ") }), notes(found.notes), more("Full record", json(found.chain)),
      ];
    });
  } }, el("label", { class: "wide" }, "Token (JSON, as issued)", text), el("button", {}, "Inspect"));
}

function revoke(bank, one, show) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off" });
  asks({
    heading: "Revoke this token", does: "Revoke", danger: true,
    said: "It stops working at once, and so do all tokens derived from it. This cannot be undone.",
    rows: [field("Reason (optional)", reason)],
    act: async () => {
      await post(path("banks", bank, "tokens", one.id, "revoke"), { reason: reason.value.trim() || null });
      told("Token revoked.");
      show();
    },
  });
}

export async function owners(bank) {
  const found = await get(path("banks", bank, "owners"));
  const all = found.owners.length;
  return [
    el("p", {}, el("strong", {}, all === 1 ? "One key owns this bank." : `${number(found.threshold)} of ${number(all)} owners must sign `),
      all === 1 ? "" : "decisions about this bank: its owners, writers and name, and recovery after a loss."),
    table(["key", "local name", "secret key"], found.owners.map((one) => [
      mono(one.key), one.name ?? "", one.signs ? chip("on this machine", "good") : chip("elsewhere")])),
    soft("To change owners or the threshold, use ", el("code", {}, "satchel bank owner"), "."),
  ];
}
