// Import: drop a file, review the plan, run the import, see the receipt.

import { button, bytes, chip, count, el, facts, field, json, link, mono, more, notes, number, options, quiet, short, soft, table, to, when } from "./elements.js";
import { asks, into, told, watched } from "./feedback.js";
import { account, lost } from "./receipts.js";
import { get, path, post, send } from "./requests.js";

// A place to drop a file, or to choose one.
export function dropped(said, take) {
  const input = el("input", { type: "file", onchange: () => {
    if (input.files.length) take(input.files[0]);
    input.value = ""; // the same one may be chosen again
  } });
  const place = el("label", { class: "drop" }, el("strong", {}, said), el("span", { class: "soft" }, "or choose a file"), input);
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
  added: "new memories", conversations: "conversations", messages: "messages", known: "already in the bank", redacted: "redacted here",
  twice: "duplicates in the file", skipped: "skipped", overwritten: "of these, superseding another version", renamed: "of these, added beside another version",
  restored: "restored", near: "near duplicates", merged: "of these, superseding near duplicates", vanished: "deleted at the source", past: "older versions", others: "other records",
};

// Conversations and messages are counted as such, not as other records.
const numbers = (done) => ({ ...done, others: (done.others ?? 0) - (done.conversations ?? 0) - (done.messages ?? 0) });

const counted = (banks) => banks.map((bank) => [
  el("h3", {}, bank.name ?? short(bank.bank ?? "")),
  el("div", { class: "figures" }, Object.entries(NAMES).map(([name, said]) => [numbers(bank.done)[name], said]).filter(([much]) => much)
    .map(([much, said]) => el("div", {}, el("b", {}, number(much)), el("span", { class: "soft small" }, said)))),
  (bank.conflicts ?? []).length ? el("p", { class: "warn" }, `Conflicts: ${bank.conflicts.join(", ")}`) : null,
]);

const warnings = (found) => [
  (found.losses ?? []).length ? [el("h3", {}, "Not supported by the bank"), lost(found.losses)] : null,
  (found.refused ?? []).length ? [el("h3", {}, "Could not be read"), table(["where", "problem", "code"], found.refused.map((one) => [
    [one.line ? `line ${one.line}` : "", one.field ?? ""].filter(Boolean).join(", "), one.message, mono(one.code)]))] : null,
  notes(found.notes),
];

const STEPS = ["Choose", "Review", "Done"];
export const steps = (now, names = STEPS) => el("ol", { class: "steps", "aria-label": "Steps" }, names.map((name, at) =>
  el("li", { "aria-current": at === now ? "step" : null, class: at < now ? "over" : null }, name)));

export function importView(bank) {
  const name = el("input", { name: "bank", required: true, maxlength: 500, autocomplete: "off", value: bank ?? "" });
  const conflict = el("select", { name: "conflict" }, options(Object.entries({
    skip: "keep the bank's version", overwrite: "overwrite with the file's version", rename: "keep both", error: "stop the import",
  })));
  const place = el("section", { "aria-live": "polite", id: "plan" }), before = el("div"), at = el("div", {}, steps(0));
  let chosen = null, last = "";
  const step = (now) => at.replaceChildren(steps(now));
  const plan = (file) => {
    if (file) [chosen, last] = [file, ""];
    const now = JSON.stringify([name.value.trim(), conflict.value]);
    if (!chosen || last === now) return; // nothing was changed
    if (!name.value.trim()) {
      name.focus();
      place.replaceChildren(el("p", { class: "warn" }, "Choose a bank to continue."));
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
    soft("Nothing is written until you confirm."),
    el("form", { onsubmit: (event) => { event.preventDefault(); plan(null); } },
      bank ? null : [el("label", { class: "wide" }, "Bank (created if it does not exist)", name), suggested(name)],
      field("If the bank has another version", conflict)),
    readable(),
    dropped("Drop a memory file here", plan),
    place, before,
  ];
}

// Links to the imported memories and conversations.
const destinations = ({ bank, name, done }, several) => [
  link(to("b", bank), several ? `Open ${name ?? short(bank)}` : "Open the bank"),
  done.conversations || done.messages ? el("a", { class: "button", href: to("b", bank, "sessions") },
    `View ${done.conversations ? count(done.conversations, "conversation") : "conversations"}`) : null,
];

// Names of banks, for completion.
function suggested(input) {
  const list = el("datalist", { id: `banks-${(suggested.last = (suggested.last ?? 0) + 1)}` });
  input.setAttribute("list", list.id);
  get(path("banks")).then(({ banks }) => list.replaceChildren(...banks.filter((one) => one.name).map((one) => el("option", { value: one.name }))), () => {});
  return list;
}

// Formats that can be imported.
function readable() {
  const place = el("div");
  const shown = more("Supported formats", place);
  shown.addEventListener("toggle", () => {
    if (!shown.open || place.childNodes.length) return;
    into(place, async () => {
      const { formats } = await get(path("formats"));
      return table(["format", "name", "files"], [...formats].sort((one, other) => one.title.localeCompare(other.title))
        .map((one) => [one.title, mono(one.name), (one.suffixes ?? []).map((suffix) => (suffix.startsWith(".") ? `*${suffix}` : suffix)).join(", ")]));
    });
  });
  return shown;
}

// By ID if the bank exists: a name may have characters that a path cannot.
async function upload(bank) {
  const { banks } = await get(path("banks"));
  return path("banks", banks.find((one) => one.name === bank)?.id ?? bank, "upload");
}

async function planned(here) {
  const { file, bank, conflict, place, step } = here;
  const query = { name: file.name, on_conflict: conflict };
  const found = await send(await upload(bank), { ...query, dry_run: "true" }, file);
  return [
    el("h2", {}, "Import plan"),
    facts({
      file: file.name, format: found.source_format, size: bytes(found.input_bytes),
      digest: mono(found.input_digest), verified: found.source_outcome,
    }),
    counted(found.banks), warnings(found),
    more("Full plan", json(found.plan ?? {})),
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
  step(2);
  return [
    el("h2", { class: "good" }, "Done"),
    counted(found.banks), warnings(found),
    el("div", { class: "row" }, found.banks.filter((one) => one.bank).map((one) => destinations(one, found.banks.length > 1))),
    receipts.length ? el("h2", {}, "Receipt") : null, shown,
  ];
}

// Earlier imports, each of which can be undone.
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
    heading: "Undo this import", does: "Undo import", danger: true,
    said: `Removes what it added (${count(one.records, "record")}) and restores what it replaced. The log keeps both.`,
    rows: [field("Reason (optional)", reason)],
    act: async () => {
      await post(path("banks", bank, "undo"), { source: one.source, reason: reason.value.trim() || null });
      told("The import is undone.");
      again();
    },
  });
}
