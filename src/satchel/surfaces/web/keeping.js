// What is held back until somebody has looked at it; backups, and how fresh they are.

import { get, path, post } from "./asking.js";
import { button, chip, chips, count, el, empty, facts, link, mono, notes, number, quiet, soft, table, to, when } from "./making.js";
import { latest } from "./receipts.js";
import { into, told, tried, watched } from "./telling.js";

export async function quarantine(bank) {
  const found = await get(path("banks", bank, "quarantine"));
  if (!found.held.length) return empty("Nothing is held back.", "What looks like an order to a model comes here, and is shown to none before you have judged it.");
  return [
    soft("What looks like an order to a model is shown to none before you have judged it."),
    el("ul", { class: "list" }, found.held.map((one) => held(bank, one))),
    found.more ? soft("There is more than is shown here.") : null,
    notes(found.notes),
  ];
}

function held(bank, one) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off", "aria-label": "Why", placeholder: "Why (may be left out)" });
  const place = el("div", { "aria-live": "polite" });
  const judge = (word, said) => tried(place, async () => {
    await post(path("banks", bank, "quarantine", word), { memories: [one.memory.id], reason: reason.value.trim() || null });
    told(said);
    row.tabIndex = -1;
    row.replaceChildren(soft(said, " ", link(to("b", bank, "e", one.memory.id), "Look at it")));
    row.focus();
  });
  const row = el("li", { class: "held" },
    el("div", { class: "text" }, one.memory.text ?? JSON.stringify(one.memory.data ?? one.memory.members)),
    facts({ why: one.reason, "found in it": (one.findings ?? []).filter((found) => !one.reason?.includes(found)).join("; "), since: one.since ? when(one.since) : null, by: one.actor }),
    chips(one.memory.type, `trust: ${one.trust}`),
    el("div", { class: "row" }, reason,
      quiet("Release", judge("release", "It is released.")), button("Reject", judge("reject", "It is rejected."), { class: "danger" })),
    place);
  return row;
}

const LOOKS = { ok: "good", problem: "bad" };

const checked = (one) => el("li", {},
  chip(one.state === "ok" ? "fresh" : one.state, LOOKS[one.state] ?? "warn"), " ", el("strong", {}, one.name),
  soft(one.detail), one.hint ? el("p", {}, one.hint) : null);

async function listed() {
  const found = await get(path("backups"));
  return [
    el("h2", {}, "Backups at these destinations"),
    found.backups.length ? table(["backup", "when", "where", "banks", "records", "read again"], [...found.backups].reverse().map((one) => [
      mono(one.id), when(one.at), one.destination, one.banks.join(", "), number(one.records),
      one.verified ? when(one.verified) : el("span", { class: "warn" }, "never"),
    ])) : empty("There is none yet.", "Back up now makes the first."),
    notes(found.problems),
  ];
}

const run = (one) => el("li", {},
  el("p", { class: one.error ? "bad" : "good" }, one.error ?? `${one.id}, ${count(one.records ?? 0, "record")}`),
  soft(one.destination), notes([...(one.missing ?? []), ...(one.notes ?? [])]));

const each = (found) => el("ul", { class: "list" }, (found.backups ?? found.made).map(run));

const drilled = (found) => [
  el("p", {}, chip(found.is_good ? "it can be restored" : "it cannot be restored", found.is_good ? "good" : "bad"), " ", mono(found.backup)),
  table(["bank", "records", "compared", "questions", "what to know"], found.banks.map((one) => [
    one.name ?? one.bank, number(one.size), one.relation === "behind" ? `behind by ${count(one.behind, "record")}` : one.relation,
    one.questions ? `${one.same_answers} of ${one.questions} the same` : "",
    [...(one.problems ?? []), ...(one.notes ?? [])].join("; "),
  ])),
  notes([...(found.missing ?? []), ...(found.notes ?? [])]),
];

export async function backups() {
  const { checks } = await get(path("backups", "freshness"));
  const list = el("div"), kept = el("div"), place = el("section", { "aria-live": "polite" });
  const fresh = el("ul", { class: "list" }, checks.map(checked));
  const show = () => {
    into(list, listed);
    latest(kept, ["backup", "restore", "drill"]);
  };
  const job = (said, what, body, shown) => () => into(place, async () => {
    const found = await watched(await post(path("backups", ...what), body), place);
    show();
    const again = await get(path("backups", "freshness"));
    fresh.replaceChildren(...again.checks.map(checked));
    return [el("h2", {}, said), shown(found)];
  });
  if (checks.length) show();
  return [
    el("h1", {}, "Backups"),
    checks.length ? fresh : empty("No destination is configured.", "[backup] destination in satchel.toml says where backups go."),
    checks.length ? el("div", { class: "row" },
      button("Back up now", job("Made, and read again", [], {}, each)),
      quiet("Verify the newest", job("Read again", ["verify"], {}, each)),
      quiet("Try to restore it", job("Drill", ["drill"], {}, drilled), { title: "Into a place of its own; nothing that is in use is touched" })) : null,
    place, list, kept,
  ];
}
