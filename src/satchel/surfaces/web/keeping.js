// What is held back until somebody has looked at it; backups, and how fresh they are.

import { get, path, post } from "./asking.js";
import { chips, count, el, facts, into, link, notes, problem, table, to, told, when } from "./making.js";
import { watched } from "./moving.js";

export async function quarantine(bank) {
  const found = await get(path("banks", bank, "quarantine"));
  if (!found.held.length) return el("p", { class: "soft" }, "Nothing is held back.");
  return [
    el("p", { class: "soft" }, "What looks like an order to a model is not shown to one until you have judged it."),
    el("ul", { class: "list" }, found.held.map((one) => held(bank, one))),
    found.more ? el("p", { class: "soft" }, "There is more than is shown here.") : null,
    notes(found.notes),
  ];
}

function held(bank, one) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off", "aria-label": "Why", placeholder: "Why (may be left out)" });
  const place = el("div");
  const judge = (word, said) => async () => {
    try {
      await post(path("banks", bank, "quarantine", word), { memories: [one.memory.id], reason: reason.value.trim() || null });
      told(said);
      row.replaceChildren(el("p", { class: "soft" }, said, " ", link(to("b", bank, "e", one.memory.id), "Look at it")));
    } catch (error) {
      place.replaceChildren(problem(error));
    }
  };
  const row = el("li", {},
    el("div", { class: "text" }, one.memory.text ?? JSON.stringify(one.memory.data ?? one.memory.members)),
    facts({ why: one.reason, "found in it": (one.findings ?? []).join("; "), since: one.since ? when(one.since) : null, by: one.actor }),
    chips(one.memory.type, `trust: ${one.trust}`),
    el("div", { class: "row" }, reason,
      el("button", { type: "button", class: "quiet", onclick: judge("release", "It is let out.") }, "Let it out"),
      el("button", { type: "button", onclick: judge("reject", "It is not believed.") }, "Reject it")),
    place);
  return row;
}

export async function backups() {
  const { checks } = await get(path("backups", "freshness"));
  const list = el("div"), place = el("section", { "aria-live": "polite" });
  const show = () => into(list, async () => {
    const found = await get(path("backups"));
    return [
      found.backups.length ? table(["backup", "when", "where", "banks", "records", "read again"], [...found.backups].reverse().map((one) => [
        el("span", { class: "mono" }, one.id), when(one.at), one.destination, one.banks.join(", "), one.records.toLocaleString("en"),
        one.verified ? when(one.verified) : el("span", { class: "warn" }, "never"),
      ])) : el("p", { class: "soft" }, "There is none yet."),
      notes(found.problems),
    ];
  });
  const job = (where, said) => () => into(place, async () => {
    const found = await watched(await post(where), place);
    show();
    const each = Array.isArray(found) ? found : found.made;
    return el("ul", { class: "list" }, each.map((one) => el("li", {},
      one.error ? el("p", { class: "bad" }, one.error) : el("p", { class: "good" }, `${said}: ${one.id}, ${count(one.records ?? 0, "record")}`),
      el("p", { class: "soft" }, one.destination), notes([...(one.missing ?? []), ...(one.notes ?? [])]))));
  });
  if (checks.length) show();
  return [
    el("h1", {}, "Backups"),
    checks.length ? el("ul", { class: "list" }, checks.map((one) => el("li", {},
      el("strong", { class: one.state === "ok" ? "good" : one.state === "problem" ? "bad" : "warn" }, one.name),
      el("p", {}, one.detail), one.hint ? el("p", { class: "soft" }, one.hint) : null)))
      : el("p", { class: "soft" }, "No destination is configured: [backup] destination in the configuration says where to."),
    checks.length ? el("div", { class: "row" },
      el("button", { type: "button", onclick: job(path("backups"), "Made, and read again") }, "Back up now"),
      el("button", { type: "button", class: "quiet", onclick: job(path("backups", "verify"), "It holds") }, "Read the newest again")) : null,
    place, list,
  ];
}
