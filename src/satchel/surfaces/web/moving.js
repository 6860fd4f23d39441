// Memory in, by dropping a file: what would be done, doing it, and the receipt. And verifying one.

import { followed, get, path, send } from "./asking.js";
import { bytes, chips, count, el, facts, into, json, link, notes, short, table, to, when } from "./making.js";

// A place where a file can be dropped, or chosen.
function dropped(said, take) {
  const input = el("input", { type: "file", onchange: () => input.files.length && take(input.files[0]) });
  const place = el("label", { class: "drop" }, el("strong", {}, said), el("span", { class: "soft" }, "or choose one"), input);
  const over = (is) => (event) => {
    event.preventDefault();
    place.classList.toggle("over", is);
  };
  for (const name of ["dragenter", "dragover"]) place.addEventListener(name, over(true));
  place.addEventListener("dragleave", over(false));
  place.addEventListener("drop", (event) => {
    over(false)(event);
    const file = event.dataTransfer.files[0];
    if (file) take(file);
  });
  return place;
}

const NAMES = {
  read: "read", added: "new", known: "known already", redacted: "redacted here, and stay so", twice: "in the file twice", skipped: "left out",
  overwritten: "superseded here", renamed: "kept beside", restored: "current again", near: "near duplicates",
  merged: "merged", vanished: "gone at the source", past: "of the past", others: "other records",
};

const counted = (banks) => banks.map((bank) => [
  el("h3", {}, bank.name ?? short(bank.bank ?? "")),
  table(["", "records"], Object.entries(NAMES).filter(([name]) => bank.done[name])
    .map(([name, said]) => [said, bank.done[name].toLocaleString("en")])),
  (bank.conflicts ?? []).length ? el("p", { class: "warn" }, `Other versions: ${bank.conflicts.join(", ")}`) : null,
]);

const warnings = (found) => [
  (found.losses ?? []).length ? [el("h3", {}, "What the bank cannot hold"), json(found.losses)] : null,
  (found.refused ?? []).length ? [el("h3", {}, "What cannot be read"), json(found.refused)] : null,
  notes(found.notes),
];

export function importing(bank) {
  const name = el("input", { name: "bank", required: true, maxlength: 500, autocomplete: "off", value: bank ?? "" });
  const conflict = el("select", { name: "conflict" }, Object.entries({
    skip: "keep those of the bank", overwrite: "take those of the file", rename: "keep both", error: "stop",
  }).map(([value, said]) => el("option", { value }, said)));
  const place = el("section", { "aria-live": "polite", id: "plan" });
  let chosen = null, last = "";
  const plan = (file) => {
    if (file) [chosen, last] = [file, ""];
    const now = JSON.stringify([name.value.trim(), conflict.value]);
    if (!chosen || last === now) return; // a field that is left unchanged is no new question
    if (!name.value.trim()) {
      name.focus();
      place.replaceChildren(el("p", { class: "warn" }, "Into which bank? Say its name, and it goes on."));
      return;
    }
    last = now;
    into(place, () => planned(chosen, name.value.trim(), conflict.value, place));
  };
  for (const one of [name, conflict]) one.addEventListener("change", () => plan(null));
  return [
    el("p", { class: "soft" }, "Nothing is written before you have seen what would be."),
    el("form", { onsubmit: (event) => { event.preventDefault(); plan(null); } },
      bank ? null : el("label", { class: "wide" }, "Into the bank (made if it is not there)", name),
      el("label", {}, "Other versions of what is there", conflict)),
    dropped("Drop a file of memory here", plan),
    place,
  ];
}

const upload = (bank) => path("banks", bank, "upload");

async function planned(file, bank, conflict, place) {
  const query = { name: file.name, on_conflict: conflict };
  const found = await send(upload(bank), { ...query, dry_run: "true" }, file);
  const plan = found.plan ?? {};
  return [
    el("h2", {}, "What would be done"),
    facts({
      file: file.name, format: found.source_format, size: bytes(found.input_bytes),
      digest: el("span", { class: "mono" }, found.input_digest), verified: found.source_outcome,
    }),
    counted(found.banks), warnings(found),
    el("details", {}, el("summary", {}, "The whole plan"), json(plan)),
    el("div", { class: "row" },
      el("button", { type: "button", onclick: () => into(place, () => run(file, bank, query, place)) }, "Bring it in"),
      el("button", { type: "button", class: "quiet", onclick: () => place.replaceChildren() }, "Leave it")),
  ];
}

async function run(file, bank, query, place) {
  const job = await send(upload(bank), { ...query, wait: "false" }, file);
  const found = await watched(job, place);
  const receipts = found.receipts ?? [];
  const shown = el("div");
  if (receipts.length) into(shown, () => account(receipts[0]));
  const first = found.banks[0]?.bank;
  return [
    el("h2", { class: "good" }, "Done"),
    counted(found.banks), warnings(found),
    first ? el("p", {}, link(to("b", first), "To the bank")) : null,
    receipts.length ? el("h2", {}, "Receipt") : null, shown,
  ];
}

// Shows a job's progress in a place until it ends.
export async function watched(job, place) {
  const bar = el("progress", { max: 1 }), said = el("p", { class: "soft" });
  const off = el("button", { type: "button", class: "quiet" }, "Call it off");
  place.replaceChildren(bar, said, off);
  return followed(job, (now) => {
    if (now.total) bar.value = now.done / now.total;
    said.textContent = `${now.state}${now.total ? `, ${(now.done ?? 0).toLocaleString("en")} of ${now.total.toLocaleString("en")}` : ""}`;
  }, (end) => off.addEventListener("click", end));
}

async function account(id) {
  const found = await get(path("receipts", id));
  const said = found.account;
  return [
    el("p", {}, el("strong", { class: found.standing === "good" ? "good" : "bad" }, found.standing),
      found.problem ? `: ${found.problem}` : "", " · ", said.kind, " · ", said.ended ? when(said.ended) : ""),
    facts({
      receipt: el("span", { class: "mono" }, found.id), "read back": said.read_back, verdict: said.verdict,
      input: said.input?.digest ? el("span", { class: "mono" }, said.input.digest) : null,
      output: said.output?.name, "signed by": (found.signed_by ?? []).map((key) => el("div", { class: "mono" }, key)),
    }),
    said.counts ? table(["records", "read", "planned", "written", "read back"], Object.entries(said.counts).map(([type, each]) =>
      [type, each.read, each.planned, each.written, each.read_back])) : null,
    el("details", {}, el("summary", {}, "All of it"), json(found.record)),
  ];
}

export async function receipts(id) {
  if (id) return [el("h1", {}, "Receipt"), await account(id)];
  const { receipts: found } = await get(path("receipts"));
  return [
    el("h1", {}, "Receipts"),
    el("p", { class: "soft" }, found.length ? "What was moved, and what was lost." : "Nothing was moved yet."),
    found.length ? table(["what", "when", "from", "to", "records", "lost", ""], found.map((one) => [
      one.kind, when(one.at), one.input, one.output, one.records.toLocaleString("en"),
      one.lost ? el("span", { class: "bad" }, one.lost) : "nothing", link(to("receipts", one.id), "Show"),
    ])) : null,
  ];
}

const SIGNS = { passed: "✓", failed: "✗", "not run": "–" };
const LOOKS = { passed: "good", failed: "bad", "not run": "soft" };

export function verifying() {
  const deep = el("input", { type: "checkbox", name: "deep" });
  const place = el("section", { "aria-live": "polite", id: "verdict" });
  return [
    el("h1", {}, "Verify"),
    el("p", { class: "soft" }, "Is a sealed file as it was signed, and by whom? Nothing of it is kept."),
    el("label", { class: "check" }, deep, "look at every record"),
    dropped("Drop a sealed file here", (file) => into(place, async () => {
      const found = await send(path("verify", "upload"), { name: file.name, deep: String(deep.checked) }, file);
      return verdict(found);
    })),
    place,
  ];
}

const verdict = (found) => [
  el("h2", { class: found.outcome === "good" ? "good" : "bad" }, `${found.file}: ${found.outcome}`),
  el("ol", { class: "list" }, found.steps.map((step) => el("li", {},
    el("strong", { class: LOOKS[step.state] }, SIGNS[step.state], " ", step.name), " ",
    el("span", { class: "soft small" }, step.state),
    el("div", { class: "soft" }, step.detail)))),
  found.findings.length ? [el("h2", {}, "What is wrong"), el("ul", { class: "bad" }, found.findings.map((one) =>
    el("li", {}, `${one.outcome}: ${one.message}`, one.line ? ` (line ${one.line})` : "", one.field ? ` (${one.field})` : "")))] : null,
  found.signers.length ? [el("h2", {}, "Signed by"), table(["key", "name", "standing", "valid"], found.signers.map((one) =>
    [el("span", { class: "mono" }, one.key), one.name ?? "", one.standing, one.valid ? "yes" : el("span", { class: "bad" }, one.problem ?? "no")]))] : null,
  notes(found.notes),
  chips(Object.entries(found.records).map(([type, number]) => count(number, type, type))),
  el("details", {}, el("summary", {}, "What was signed"), json(found.statement)),
];

