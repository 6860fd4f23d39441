// Memory in: a file is dropped, what would be done is shown, it is done, and there is the receipt.

import { get, path, post, send } from "./asking.js";
import { button, bytes, chip, count, el, facts, field, json, link, mono, more, notes, number, options, quiet, short, soft, table, to, when } from "./making.js";
import { account, lost } from "./receipts.js";
import { asks, into, told, watched } from "./telling.js";

// A place where a file can be dropped, or chosen.
export function dropped(said, take) {
  const input = el("input", { type: "file", onchange: () => {
    if (input.files.length) take(input.files[0]);
    input.value = ""; // the same one may be chosen again
  } });
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
  el("div", { class: "figures" }, Object.entries(NAMES).filter(([name]) => bank.done[name])
    .map(([name, said]) => el("div", {}, el("b", {}, number(bank.done[name])), el("span", { class: "soft small" }, said)))),
  (bank.conflicts ?? []).length ? el("p", { class: "warn" }, `Other versions: ${bank.conflicts.join(", ")}`) : null,
]);

const warnings = (found) => [
  (found.losses ?? []).length ? [el("h3", {}, "What the bank cannot hold"), lost(found.losses)] : null,
  (found.refused ?? []).length ? [el("h3", {}, "What cannot be read"), table(["where", "what is wrong", ""], found.refused.map((one) => [
    [one.line ? `line ${one.line}` : "", one.field ?? ""].filter(Boolean).join(", "), one.message, mono(one.code)]))] : null,
  notes(found.notes),
];

const STEPS = ["Choose", "Look", "Done"];
export const steps = (now, names = STEPS) => el("ol", { class: "steps", "aria-label": "Steps" }, names.map((name, at) =>
  el("li", { "aria-current": at === now ? "step" : null, class: at < now ? "over" : null }, name)));

export function importing(bank) {
  const name = el("input", { name: "bank", required: true, maxlength: 500, autocomplete: "off", value: bank ?? "" });
  const conflict = el("select", { name: "conflict" }, options(Object.entries({
    skip: "keep those of the bank", overwrite: "take those of the file", rename: "keep both", error: "stop",
  })));
  const place = el("section", { "aria-live": "polite", id: "plan" }), before = el("div"), at = el("div", {}, steps(0));
  let chosen = null, last = "";
  const step = (now) => at.replaceChildren(steps(now));
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
    step(1);
    into(place, () => planned({ file: chosen, bank: name.value.trim(), conflict: conflict.value, place, step }));
  };
  for (const one of [name, conflict]) one.addEventListener("change", () => plan(null));
  if (bank) into(before, () => earlier(bank, before));
  return [
    at,
    soft("Nothing is written before you have seen what would be."),
    el("form", { onsubmit: (event) => { event.preventDefault(); plan(null); } },
      bank ? null : el("label", { class: "wide" }, "Into the bank (created if it is not there)", name),
      field("Other versions of what is there", conflict)),
    dropped("Drop a file of memory here", plan),
    place, before,
  ];
}

// By its id where it is there: a name may hold what no path can.
async function upload(bank) {
  const { banks } = await get(path("banks"));
  return path("banks", banks.find((one) => one.name === bank)?.id ?? bank, "upload");
}

async function planned(here) {
  const { file, bank, conflict, place, step } = here;
  const query = { name: file.name, on_conflict: conflict };
  const found = await send(await upload(bank), { ...query, dry_run: "true" }, file);
  return [
    el("h2", {}, "What would be done"),
    facts({
      file: file.name, format: found.source_format, size: bytes(found.input_bytes),
      digest: mono(found.input_digest), verified: found.source_outcome,
    }),
    counted(found.banks), warnings(found),
    more("The whole plan", json(found.plan ?? {})),
    el("div", { class: "row" },
      button("Import", () => into(place, () => run(here, query))),
      quiet("Cancel", () => { step(0); place.replaceChildren(); })),
  ];
}

async function run({ file, bank, place, step }, query) {
  const job = await send(await upload(bank), { ...query, wait: "false" }, file);
  const found = await watched(job, place);
  const receipts = found.receipts ?? [], shown = el("div");
  if (receipts.length) into(shown, () => account(receipts[0]));
  const first = found.banks[0]?.bank;
  step(2);
  return [
    el("h2", { class: "good" }, "Done"),
    counted(found.banks), warnings(found),
    first ? el("p", {}, link(to("b", first), "To the bank")) : null,
    receipts.length ? el("h2", {}, "Receipt") : null, shown,
  ];
}

// What was brought in before, and taking it back.
async function earlier(bank, place) {
  const { imports: found } = await get(path("banks", bank, "imports")).catch((error) => {
    if (error.status === 404) return { imports: [] }; // there is no such bank yet
    throw error;
  });
  if (!found.length) return null;
  const again = () => into(place, () => earlier(bank, place));
  return [
    el("h2", {}, "Earlier imports"),
    table(["format", "when", "records", "state", ""], [...found].reverse().map((one) => [
      one.format, when(one.at), number(one.records), chip(one.state, one.state === "complete" ? "good" : ""),
      one.state === "complete" ? quiet("Undo", () => undone(bank, one, again), { "aria-label": `Undo the import of ${one.format}` }) : "",
    ])),
  ];
}

function undone(bank, one, again) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off" });
  asks({
    heading: "Undo this import", does: "Undo it", danger: true,
    said: `What came with it (${count(one.records, "record")}) goes, and what it replaced is there again. The log keeps both.`,
    rows: [field("Why (may be left out)", reason)],
    act: async () => {
      await post(path("banks", bank, "undo"), { source: one.source, reason: reason.value.trim() || null });
      told("The import is undone.");
      again();
    },
  });
}
