// Quarantine: memories to review before any model sees them. Backups: their set-up, freshness and tests.

import { button, chip, chips, copyable, count, el, empty, facts, field, link, mono, notes, number, quiet, soft, table, to, when } from "./elements.js";
import { load, notify, attempt, watchJob } from "./feedback.js";
import { gist } from "./memory.js";
import { latest } from "./receipts.js";
import { get, path, post } from "./requests.js";
import { selection } from "./selection.js";

export async function quarantine(bank, again) {
  const { bar, head, pick } = selection(bank, again);
  const result = await get(path("banks", bank, "quarantine"));
  if (!result.held.length) return empty("Nothing is in quarantine.", "Suspected prompt injections are quarantined until you review them.");
  return [
    soft("Suspected prompt injections. No model sees them until you release them."),
    head(),
    el("ul", { class: "list" }, result.held.map((item) => held(bank, item, pick(item.memory)))),
    bar,
    result.more ? soft("There are more than are shown here.") : null,
    notes(result.notes),
  ];
}

function held(bank, item, picked) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off", "aria-label": "Reason", placeholder: "Reason (optional)" });
  const container = el("div", { "aria-live": "polite" });
  const judge = (word, notice) => attempt(container, async () => {
    await post(path("banks", bank, "quarantine", word), { memories: [item.memory.id], reason: reason.value.trim() || null });
    notify(notice);
    row.tabIndex = -1;
    const [box] = picked.children;
    box.checked = false;
    box.disabled = true; // it has been reviewed
    box.dispatchEvent(new Event("change"));
    row.replaceChildren(soft(notice, " ", link(to("b", bank, "e", item.memory.id), "View memory")));
    row.focus();
  });
  const row = el("div", { class: "held" },
    el("div", { class: "text" }, gist(item.memory)),
    facts({ reason: item.reason, findings: (item.findings ?? []).filter((result) => !item.reason?.includes(result)).join("; "), since: item.since ? when(item.since) : null, by: item.actor }),
    chips(item.memory.type, `trust: ${item.trust}`),
    el("div", { class: "row" }, reason,
      quiet("Release", judge("release", "Released.")), button("Reject", judge("reject", "Rejected."), { class: "danger" })),
    container);
  return el("li", { class: "pickable" }, picked, row);
}

const LOOKS = { ok: "good", problem: "bad" };

const checked = (item) => el("li", {},
  chip(item.state === "ok" ? "fresh" : item.state, LOOKS[item.state] ?? "warn"), " ", el("strong", {}, item.name),
  soft(item.detail), item.hint ? el("p", {}, item.hint) : null);

async function listed() {
  const result = await get(path("backups"));
  return [
    el("h2", {}, "Backups"),
    result.backups.length ? table(["backup", "time", "destination", "banks", "records", "verified"], [...result.backups].reverse().map((item) => [
      mono(item.id), when(item.at), item.destination, item.banks.join(", "), number(item.records),
      item.verified ? when(item.verified) : el("span", { class: "warn" }, "never"),
    ])) : empty("No backups found.", "Create the first one with Back up now."),
    notes(result.problems),
  ];
}

const run = (item) => el("li", {},
  el("p", { class: item.error ? "bad" : "good" }, item.error ?? `${item.id}, ${count(item.records ?? 0, "record")}`),
  soft(item.destination), notes([...(item.missing ?? []), ...(item.notes ?? [])]));

const each = (result) => el("ul", { class: "list" }, (result.backups ?? result.made).map(run));

const drilled = (result) => [
  el("p", {}, chip(result.is_good ? "restorable" : "not restorable", result.is_good ? "good" : "bad"), " ", mono(result.backup)),
  table(["bank", "records", "compared", "queries", "notes"], result.banks.map((item) => [
    item.name ?? item.bank, number(item.size), item.relation === "behind" ? `behind by ${count(item.behind, "record")}` : item.relation,
    item.questions ? `${item.same_answers} of ${item.questions} the same` : "",
    [...(item.problems ?? []), ...(item.notes ?? [])].join("; "),
  ])),
  notes([...(result.missing ?? []), ...(result.notes ?? [])]),
];

// How to enable backups: the file, the lines to add, and the next steps.
async function configured(checks, again) {
  const now = await get(path("backups", "setup"));
  const destination = el("input", { name: "destination", maxlength: 1000, autocomplete: "off", value: "/mnt/backups" });
  const lines = el("div"), steps = el("div", { class: "setup" });
  const show = async () => {
    const result = await get(path("backups", "setup"), { destination: destination.value.trim() || undefined });
    lines.replaceChildren(...copyable(result.lines.trim(), "Lines to add", result.lines.trim().split("\n").length, notify).flat());
  };
  destination.addEventListener("change", () => load(lines, async () => { await show(); return [...lines.childNodes]; }));
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
  const list = el("div"), kept = el("div"), container = el("section", { "aria-live": "polite" });
  const setup = el("div");
  load(setup, () => configured(checks, () => dispatchEvent(new Event("hashchange"))));
  const fresh = el("ul", { class: "list" }, checks.map(checked));
  const show = () => {
    load(list, listed);
    latest(kept, ["backup", "restore", "drill"]);
  };
  const job = (heading, what, body, shown) => () => load(container, async () => {
    const result = await watchJob(await post(path("backups", ...what), body), container);
    show();
    const again = await get(path("backups", "freshness"));
    fresh.replaceChildren(...again.checks.map(checked));
    return [el("h2", {}, heading), shown(result)];
  });
  if (checks.length) show();
  return [
    el("h1", {}, "Backups"),
    checks.length ? fresh : setup,
    checks.length ? el("div", { class: "row" },
      button("Back up now", job("Backup created and verified", [], {}, each)),
      quiet("Verify the newest", job("Verified", ["verify"], {}, each)),
      quiet("Test a restore", job("Restore test", ["drill"], {}, drilled), { title: "Restores into a temporary store. Nothing in use is changed." })) : null,
    container, list, kept, checks.length ? setup : null,
  ];
}
