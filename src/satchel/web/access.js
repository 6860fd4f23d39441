// Capability tokens of a bank, and its owners.

import { button, check, chip, copyable, el, empty, facts, field, json, mono, more, notes, number, options, quiet, short, soft, table, when } from "./elements.js";
import { confirmDialog, load, notify } from "./feedback.js";
import { get, path, post } from "./requests.js";

const PERMISSIONS = ["read", "write", "derive", "redact", "export", "rehydrate"];
const TYPES = ["semantic", "episodic", "procedural", "working", "identity"];
const LASTS = [["1h", "an hour"], ["24h", "a day"], ["7d", "a week"], ["30d", "30 days"], ["90d", "90 days"]];

const words = (input) => input.value.split(/[,\s]+/).filter(Boolean);
const boxes = (names, on) => names.map((name) => el("input", { type: "checkbox", name, checked: on.includes(name) }));
const chosen = (inputs) => inputs.filter((item) => item.checked).map((item) => item.name);
const group = (legend, inputs) => el("fieldset", {}, el("legend", {}, legend), inputs.map((item) => check(item, item.name)));

export function tokens(bank) {
  const list = el("div"), made = el("section", { "aria-live": "polite" }), verdict = el("section", { "aria-live": "polite" });
  const past = el("input", { type: "checkbox", onchange: () => show() });
  const show = () => load(list, async () => {
    const { tokens: result } = await get(path("banks", bank, "tokens"), { all: past.checked ? "true" : "" });
    if (!result.length) return empty("There are no active tokens.", "A token grants someone else limited access to a part of this bank, for a limited time.");
    return table(["audience", "permissions", "scope", "expires", "state", ""], result.map((item) => [
      item.audience ? mono(item.audience) : "bearer", item.permissions.join(", "), item.scope.join("; "), when(item.expires_at),
      [chip(item.state ?? "", item.state === "active" ? "good" : ""), el("div", { class: "mono soft" }, short(item.id))],
      item.state === "active" ? quiet("Revoke", () => revoke(bank, item, show), { "aria-label": `Revoke ${short(item.id)}` }) : "",
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
  confirmDialog({
    heading: "Issue a token", does: "Issue",
    body: "Only the holder of the recipient's key can use it. A bearer token can be used by anybody who has it, for one day at most.",
    rows: [
      field("Key of the recipient", audience), check(bearer, "Bearer token"), group("Permissions", may), group("Types (none: all)", parts),
      el("div", { class: "row" }, field("With any of these tags", tags), field("Without these tags", none)), field("Expires after", lasts),
    ],
    act: async () => {
      const components = chosen(parts), any = words(tags), without = words(none);
      const result = await post(path("banks", bank, "tokens"), {
        audience: bearer.checked ? null : audience.value.trim() || null, bearer: bearer.checked, permissions: chosen(may), types: components, any_tags: any, no_tags: without,
        everything: !components.length && !any.length && !without.length, expires: lasts.value,
      });
      made.replaceChildren(el("div", { class: "issued" }, issued(result)));
      notify("Token issued.");
      show();
    },
  });
}

function issued(result) {
  const text = JSON.stringify(result.token);
  return [
    el("h2", { class: "good" }, "Issued"),
    soft("It is shown only once. Give it to its recipient", result.audience ? "." : ". Anybody who has it can use it."),
    copyable(text, "The token", 6, notify),
    chainOf(result.tokens),
  ];
}

const chainOf = (chain) => table(["issuer", "audience", "permissions", "scope", "from", "until"], chain.map((item) => [
  mono(item.issuer), item.audience ? mono(item.audience) : "bearer", item.permissions.join(", "), item.scope.join("; "),
  when(item.not_before), when(item.expires_at)]), "Delegation chain, from the owner's token");

function inspect(bank, verdict) {
  const text = el("textarea", { name: "token", rows: 4, required: true, maxlength: 1000000, spellcheck: "false" });
  return el("form", { onsubmit: (event) => {
    event.preventDefault();
    load(verdict, async () => {
      const result = await post(path("banks", bank, "tokens", "verify"), { token: text.value.trim() });
      return [
        el("p", {}, chip(result.valid ? "valid" : "not valid", result.valid ? "good" : "bad"), " ", result.problem ?? ""),
        chainOf(result.chain.tokens),
        facts({ "revocations checked in": (result.checked ?? []).join("; ") }), notes(result.notes), more("Full record", json(result.chain)),
      ];
    });
  } }, el("label", { class: "wide" }, "Token (JSON, as issued)", text), el("button", {}, "Inspect"));
}

function revoke(bank, item, show) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off" });
  confirmDialog({
    heading: "Revoke this token", does: "Revoke", danger: true,
    body: "It stops working at once, and so do all tokens derived from it. This cannot be undone.",
    rows: [field("Reason (optional)", reason)],
    act: async () => {
      await post(path("banks", bank, "tokens", item.id, "revoke"), { reason: reason.value.trim() || null });
      notify("Token revoked.");
      show();
    },
  });
}

export async function owners(bank) {
  const result = await get(path("banks", bank, "owners"));
  const all = result.owners.length;
  return [
    el("p", {}, el("strong", {}, all === 1 ? "One key owns this bank." : `${number(result.threshold)} of ${number(all)} owners must sign `),
      all === 1 ? "" : "decisions about this bank: its owners, writers and name, and recovery after a loss."),
    table(["key", "local name", "secret key"], result.owners.map((item) => [
      mono(item.key), item.name ?? "", item.signs ? chip("on this machine", "good") : chip("elsewhere")])),
    soft("To change owners or the threshold, use ", el("code", {}, "satchel bank owner"), "."),
  ];
}
