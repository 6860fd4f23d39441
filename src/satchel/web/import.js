// Import: drop a file, review the plan, run the import, see the receipt.

import { button, bytes, chip, count, el, facts, field, json, link, mono, more, notes, number, options, quiet, short, soft, table, to, when } from "./elements.js";
import { confirmDialog, load, notify, watchJob } from "./feedback.js";
import { account, lost } from "./receipts.js";
import { get, path, post, send } from "./requests.js";

// A place to drop a file, or to choose one.
export function dropArea(label, take) {
  const input = el("input", { type: "file", onchange: () => {
    if (input.files.length) take(input.files[0]);
    input.value = ""; // the same one may be chosen again
  } });
  const container = el("label", { class: "drop" }, el("strong", {}, label), el("span", { class: "soft" }, "or choose a file"), input);
  const over = (is) => (event) => {
    event.preventDefault();
    container.classList.toggle("over", is);
  };
  for (const name of ["dragenter", "dragover"]) container.addEventListener(name, over(true));
  container.addEventListener("dragleave", over(false));
  container.addEventListener("drop", (event) => {
    over(false)(event);
    const file = event.dataTransfer.files[0];
    if (file) take(file);
  });
  return container;
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
  el("div", { class: "figures" }, Object.entries(NAMES).map(([name, label]) => [numbers(bank.done)[name], label]).filter(([much]) => much)
    .map(([much, label]) => el("div", {}, el("b", {}, number(much)), el("span", { class: "soft small" }, label)))),
  (bank.conflicts ?? []).length ? el("p", { class: "warn" }, `Conflicts: ${bank.conflicts.join(", ")}`) : null,
]);

const warnings = (result) => [
  (result.losses ?? []).length ? [el("h3", {}, "Not supported by the bank"), lost(result.losses)] : null,
  (result.refused ?? []).length ? [el("h3", {}, "Could not be read"), table(["where", "problem", "code"], result.refused.map((item) => [
    [item.line ? `line ${item.line}` : "", item.field ?? ""].filter(Boolean).join(", "), item.message, mono(item.code)]))] : null,
  notes(result.notes),
];

const STEPS = ["Choose", "Review", "Done"];
export const steps = (now, names = STEPS) => el("ol", { class: "steps", "aria-label": "Steps" }, names.map((name, at) =>
  el("li", { "aria-current": at === now ? "step" : null, class: at < now ? "over" : null }, name)));

export function importView(bank) {
  const name = el("input", { name: "bank", required: true, maxlength: 500, autocomplete: "off", value: bank ?? "" });
  const conflict = el("select", { name: "conflict" }, options(Object.entries({
    skip: "keep the bank's version", overwrite: "overwrite with the file's version", rename: "keep both", error: "stop the import",
  })));
  const container = el("section", { "aria-live": "polite", id: "plan" }), before = el("div"), at = el("div", {}, steps(0));
  let chosen = null, last = "";
  const step = (now) => at.replaceChildren(steps(now));
  const plan = (file) => {
    if (file) [chosen, last] = [file, ""];
    const now = JSON.stringify([name.value.trim(), conflict.value]);
    if (!chosen || last === now) return; // nothing was changed
    if (!name.value.trim()) {
      name.focus();
      container.replaceChildren(el("p", { class: "warn" }, "Choose a bank to continue."));
      return;
    }
    last = now;
    step(1);
    load(container, () => planned({ file: chosen, bank: name.value.trim(), conflict: conflict.value, container, step }));
  };
  for (const item of [name, conflict]) item.addEventListener("change", () => plan(null));
  if (bank) load(before, () => earlier(bank, before));
  return [
    at,
    soft("Nothing is written until you confirm."),
    el("form", { onsubmit: (event) => { event.preventDefault(); plan(null); } },
      bank ? null : [el("label", { class: "wide" }, "Bank (created if it does not exist)", name), suggested(name)],
      field("If the bank has another version", conflict)),
    readable(),
    dropArea("Drop a memory file here", plan),
    container, before,
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
  get(path("banks")).then(({ banks }) => list.replaceChildren(...banks.filter((item) => item.name).map((item) => el("option", { value: item.name }))), () => {});
  return list;
}

// Formats that can be imported.
function readable() {
  const container = el("div");
  const shown = more("Supported formats", container);
  shown.addEventListener("toggle", () => {
    if (!shown.open || container.childNodes.length) return;
    load(container, async () => {
      const { formats } = await get(path("formats"));
      return table(["format", "name", "files"], [...formats].sort((item, other) => item.title.localeCompare(other.title))
        .map((item) => [item.title, mono(item.name), (item.suffixes ?? []).map((suffix) => (suffix.startsWith(".") ? `*${suffix}` : suffix)).join(", ")]));
    });
  });
  return shown;
}

// By ID if the bank exists: a name may have characters that a path cannot.
async function upload(bank) {
  const { banks } = await get(path("banks"));
  return path("banks", banks.find((item) => item.name === bank)?.id ?? bank, "upload");
}

async function planned(here) {
  const { file, bank, conflict, container, step } = here;
  const query = { name: file.name, on_conflict: conflict };
  const result = await send(await upload(bank), { ...query, dry_run: "true" }, file);
  return [
    el("h2", {}, "Import plan"),
    facts({
      file: file.name, format: result.source_format, size: bytes(result.input_bytes),
      digest: mono(result.input_digest), verified: result.source_outcome,
    }),
    counted(result.banks), warnings(result),
    more("Full plan", json(result.plan ?? {})),
    el("div", { class: "row" },
      button("Import", () => load(container, () => run(here, query))),
      quiet("Cancel", () => { step(0); container.replaceChildren(); })),
  ];
}

async function run({ file, bank, container, step }, query) {
  const job = await send(await upload(bank), { ...query, wait: "false" }, file);
  const result = await watchJob(job, container);
  const receipts = result.receipts ?? [], shown = el("div");
  if (receipts.length) load(shown, () => account(receipts[0]));
  step(2);
  return [
    el("h2", { class: "good" }, "Done"),
    counted(result.banks), warnings(result),
    el("div", { class: "row" }, result.banks.filter((item) => item.bank).map((item) => destinations(item, result.banks.length > 1))),
    receipts.length ? el("h2", {}, "Receipt") : null, shown,
  ];
}

// Earlier imports, each of which can be undone.
async function earlier(bank, container) {
  const { imports: result } = await get(path("banks", bank, "imports")).catch((error) => {
    if (error.status === 404) return { imports: [] }; // there is no such bank yet
    throw error;
  });
  if (!result.length) return null;
  const again = () => load(container, () => earlier(bank, container));
  return [
    el("h2", {}, "Earlier imports"),
    table(["format", "when", "records", "state", ""], [...result].reverse().map((item) => [
      item.format, when(item.at), number(item.records), chip(item.state, item.state === "complete" ? "good" : ""),
      item.state === "complete" ? quiet("Undo", () => undone(bank, item, again), { "aria-label": `Undo the import of ${item.format}` }) : "",
    ])),
  ];
}

function undone(bank, item, again) {
  const reason = el("input", { name: "reason", maxlength: 1000, autocomplete: "off" });
  confirmDialog({
    heading: "Undo this import", does: "Undo import", danger: true,
    body: `Removes what it added (${count(item.records, "record")}) and restores what it replaced. The log keeps both.`,
    rows: [field("Reason (optional)", reason)],
    act: async () => {
      await post(path("banks", bank, "undo"), { source: item.source, reason: reason.value.trim() || null });
      notify("The import is undone.");
      again();
    },
  });
}
