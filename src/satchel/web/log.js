// The log of a bank: every entry with its position, type, signer and proof.

import { chip, clipped, el, empty, facts, field, json, link, mono, notes, number, options, short, soft, table, to, when } from "./elements.js";
import { load } from "./feedback.js";
import { get, path } from "./requests.js";

const PAGE = 50;
const LOOKS = { current: "good", erased: "warn", pending: "warn", quarantined: "bad", superseded: "", expired: "" };

export async function log(bank, query) {
  const oldest = query.get("order") === "oldest";
  const after = /^\d{1,15}$/.test(query.get("after") ?? "") ? query.get("after") : undefined;
  const page = await get(path("banks", bank, "log"), { limit: PAGE, after, oldest_first: oldest ? "true" : "" });
  const address = (changed) => {
    const params = new URLSearchParams({ ...(oldest ? { order: "oldest" } : {}), ...changed });
    return to("b", bank, "log") + (params.size ? `?${params}` : "");
  };
  const order = el("select", { name: "order", onchange: () => {
    location.hash = to("b", bank, "log") + (order.value === "oldest" ? "?order=oldest" : "");
  } }, options([["newest", "Newest first"], ["oldest", "Oldest first"]], oldest ? "oldest" : "newest"));
  const position = el("input", { name: "position", type: "number", min: 1, max: page.size, required: true });
  const jump = el("form", { onsubmit: (event) => {
    event.preventDefault();
    location.hash = address({ after: oldest ? Math.max(0, position.value - 2) : position.value });
  } }, field("Go to position", position), el("button", { class: "quiet" }, "Go"));
  const all = page.entries.every((entry) => entry.verified);
  const [first, last] = [page.entries[0]?.position, page.entries.at(-1)?.position];
  return [
    soft("Everything that was ever done to this bank, in order. Each entry is verified against the signed root."),
    facts({
      entries: number(page.size), root: mono(page.root), "signed by": mono(page.key), "signed at": when(page.signed_at), epoch: page.epoch,
    }),
    notes(page.notes),
    el("div", { class: "row" }, field("Order", order), jump),
    page.entries.length ? [
      el("p", {}, chip(all ? "all verified" : "some entries do not verify", all ? "good" : "bad"),
        el("span", { class: "soft small" }, ` Positions ${number(first + 1)} to ${number(last + 1)} of ${number(page.size)}`)),
      el("div", { id: "log" }, table(["position", "type", "added", "says", "signer", "verified"], page.entries.map((entry) => row(bank, page, entry)))),
      el("nav", { class: "row", "aria-label": "Pages of the log" },
        after === undefined ? null : link(address({}), oldest ? "\u2190 Oldest" : "\u2190 Newest"),
        page.next === undefined ? null : link(address({ after: page.next }), oldest ? "Newer \u2192" : "Older \u2192")),
    ] : empty("There are no entries here.", link(address({}), "To the first page"), "."),
  ];
}

const row = (bank, page, entry) => [
  number(entry.position + 1), entry.type, when(entry.at),
  [entry.state === "erased" ? el("span", { class: "soft" }, "erased") : link(to("b", bank, "e", entry.id), clipped(entry.text || short(entry.id), 120)),
    entry.state === "current" || entry.state === "erased" ? null : [" ", chip(entry.state, LOOKS[entry.state] ?? "bad")]],
  ((entry.signers ?? []).length ? entry.signers : [page.key]).map((key) => el("span", { class: "mono", title: key }, `\u2026${key.slice(-8)} `)),
  [entry.verified ? chip("yes", "good") : [chip("no", "bad"), " ", entry.problem], proof(page, entry)],
];

// For verification without this server: the leaf, and its siblings up to the root.
const proof = (page, entry) => {
  const container = el("div");
  return el("details", { ontoggle: (event) => {
    if (event.target.open && !container.childNodes.length) {
      load(container, async () => [
        facts({ id: mono(entry.id), leaf: `entry ${number(entry.position + 1)} of ${number(page.size)}`, root: mono(page.root) }),
        json({ position: entry.position, type: entry.type, id: entry.id, at: entry.at, path: entry.proof, root: page.root }),
      ]);
    }
  } }, el("summary", {}, "proof"), container);
};
