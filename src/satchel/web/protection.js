// Quarantine: memories to review before any model sees them. Backups: their set-up, freshness and tests.

import { button, chip, chips, copyable, count, el, empty, facts, field, link, mono, notes, number, quiet, soft, table, to, when } from "./elements.js";
import { into, told, tried, watched } from "./feedback.js";
import { gist } from "./memory.js";
import { latest } from "./receipts.js";
import { get, path, post } from "./requests.js";
import { selection } from "./selection.js";

export async function quarantine(bank, again) {
  const { bar, head, pick } = selection(bank, again);
  const found = await get(path("banks", bank, "quarantine"));
  if (!found.held.length) return empty("Nothing is in quarantine.", "Suspected prompt injections are quarantined until you review them.");
  return [
    soft("Suspected prompt injections. No model sees them until you release them."),
    head(),
    el("ul", { class: "list" }, found.held.map((one) => held(bank, one, pick(one.memory)))),
    bar,
    found.more ? soft("There are more than are shown here.") : null,
    notes(found.notes),
  ];
}

function held(bank, one, picked) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off", "aria-label": "Reason", placeholder: "Reason (optional)" });
  const place = el("div", { "aria-live": "polite" });
  const judge = (word, said) => tried(place, async () => {
    await post(path("banks", bank, "quarantine", word), { memories: [one.memory.id], reason: reason.value.trim() || null });
    told(said);
    row.tabIndex = -1;
    const [box] = picked.children;
    box.checked = false;
    box.disabled = true; // it has been reviewed
    box.dispatchEvent(new Event("change"));
    row.replaceChildren(soft(said, " ", link(to("b", bank, "e", one.memory.id), "View memory")));
    row.focus();
  });
  const row = el("div", { class: "held" },
    el("div", { class: "text" }, gist(one.memory)),
    facts({ reason: one.reason, findings: (one.findings ?? []).filter((found) => !one.reason?.includes(found)).join("; "), since: one.since ? when(one.since) : null, by: one.actor }),
    chips(one.memory.type, `trust: ${one.trust}`),
    el("div", { class: "row" }, reason,
      quiet("Release", judge("release", "Released.")), button("Reject", judge("reject", "Rejected."), { class: "danger" })),
    place);
  return el("li", { class: "pickable" }, picked, row);
}

const LOOKS = { ok: "good", problem: "bad" };

const checked = (one) => el("li", {},
  chip(one.state === "ok" ? "fresh" : one.state, LOOKS[one.state] ?? "warn"), " ", el("strong", {}, one.name),
  soft(one.detail), one.hint ? el("p", {}, one.hint) : null);

async function listed() {
  const found = await get(path("backups"));
  return [
    el("h2", {}, "Backups"),
    found.backups.length ? table(["backup", "time", "destination", "banks", "records", "verified"], [...found.backups].reverse().map((one) => [
      mono(one.id), when(one.at), one.destination, one.banks.join(", "), number(one.records),
      one.verified ? when(one.verified) : el("span", { class: "warn" }, "never"),
    ])) : empty("No backups found.", "Create the first one with Back up now."),
    notes(found.problems),
  ];
}

const run = (one) => el("li", {},
  el("p", { class: one.error ? "bad" : "good" }, one.error ?? `${one.id}, ${count(one.records ?? 0, "record")}`),
  soft(one.destination), notes([...(one.missing ?? []), ...(one.notes ?? [])]));

const each = (found) => el("ul", { class: "list" }, (found.backups ?? found.made).map(run));

const drilled = (found) => [
  el("p", {}, chip(found.is_good ? "restorable" : "not restorable", found.is_good ? "good" : "bad"), " ", mono(found.backup)),
  table(["bank", "records", "compared", "queries", "notes"], found.banks.map((one) => [
    one.name ?? one.bank, number(one.size), one.relation === "behind" ? `behind by ${count(one.behind, "record")}` : one.relation,
    one.questions ? `${one.same_answers} of ${one.questions} the same` : "",
    [...(one.problems ?? []), ...(one.notes ?? [])].join("; "),
  ])),
  notes([...(found.missing ?? []), ...(found.notes ?? [])]),
];

// How to enable backups: the file, the lines to add, and the next steps.
async function configured(checks, again) {
  const now = await get(path("backups", "setup"));
  const destination = el("input", { name: "destination", maxlength: 1000, autocomplete: "off", value: "/mnt/backups" });
  const lines = el("div"), steps = el("div", { class: "setup" });
  const show = async () => {
    const found = await get(path("backups", "setup"), { destination: destination.value.trim() || undefined });
    lines.replaceChildren(...copyable(found.lines.trim(), "Lines to add", found.lines.trim().split("\n").length, told).flat());
  };
  destination.addEventListener("change", () => into(lines, async () => { await show(); return [...lines.childNodes]; }));
  await show();
  steps.append(
    el("h2", {}, now.destinations.length ? "Configuration" : "Set up backups"),
    facts({
      "configuration file": [mono(now.file), now.file_exists ? null : el("span", { class: "soft" }, " (does not exist yet)")],
      destinations: now.destinations.join(", ") || "none", schedule: now.enabled ? mono(now.schedule) : "off", problem: now.problem,
    }),
    el("details", { open: !now.destinations.length }, el("summary", {}, now.destinations.length ? "Change the destination" : "Lines to add"),
      field("Destination: a folder on another disk, or an address such as s3://bucket/prefix", destination, { class: "wide" }),
      el("p", {}, now.under ? ["Add or change these lines under ", el("code", {}, now.under), " in "] : "Add these lines to ", el("code", {}, now.file), ":"),
      lines,
      el("p", {}, "Then restart ", el("code", {}, "satchel serve"), ". To run backups on the schedule: ", el("code", {}, "satchel backup schedule"), "."),
      soft("This page does not write the file: the operator of the machine decides where backups go."),
      checks.length ? null : quiet("Check again", again)));
  return steps;
}

export async function backups() {
  const { checks } = await get(path("backups", "freshness"));
  const list = el("div"), kept = el("div"), place = el("section", { "aria-live": "polite" });
  const setup = el("div");
  into(setup, () => configured(checks, () => dispatchEvent(new Event("hashchange"))));
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
    checks.length ? fresh : setup,
    checks.length ? el("div", { class: "row" },
      button("Back up now", job("Backup created and verified", [], {}, each)),
      quiet("Verify the newest", job("Verified", ["verify"], {}, each)),
      quiet("Test a restore", job("Restore test", ["drill"], {}, drilled), { title: "Restores into a temporary store. Nothing in use is changed." })) : null,
    place, list, kept, checks.length ? setup : null,
  ];
}
