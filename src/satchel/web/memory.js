// One memory: its text, sources and versions, and its changes.

import { provenance } from "./charts.js";
import { button, check, chip, chips, clipped, count, el, facts, field, json, link, more, mono, notes, number, options, quiet, short, soft, table, to, when } from "./elements.js";
import { confirmDialog, load, notify } from "./feedback.js";
import { get, patch, path, post, remove } from "./requests.js";

export const TYPES = ["semantic", "episodic", "procedural", "working", "identity"];

// The text of a memory, or a description of one without text.
export const gist = (memory) => (["", "{}", "[]", "null", undefined].includes(memory.text) ? "(empty memory)" : memory.text);

// A note that a source of the memory was corrected or deleted, so that it may be wrong, too.
export const badge = (memory) => ((memory.retracted ?? []).length
  ? chip("built on a corrected memory", "warn") : null);

export const tagged = (input) => input.value.split(/[,\s]+/).map((item) => item.replace(/^#/, "")).filter(Boolean);
export const written = (name, more = {}) => el("input", { name, maxlength: 1000, autocomplete: "off", ...more });

export function newMemory(bank) {
  const text = el("textarea", { name: "text", rows: 5, required: true, maxlength: 100000 });
  const tags = written("tags", { placeholder: "food, travel" }), user = written("user");
  const type = el("select", { name: "type" }, options(TYPES.slice(0, 4).map((item) => [item, item]), "semantic"));
  confirmDialog({
    heading: "New memory", does: "Save",
    rows: [field("Memory", text), el("div", { class: "row" }, field("Type", type), field("User", user)), field("Tags", tags)],
    act: async () => {
      const made = await post(path("banks", bank, "entries"), {
        text: text.value, type: type.value, tags: tagged(tags), ...(user.value.trim() ? { user: user.value.trim() } : {}),
      });
      notify(made.is_new === false ? "The bank has this memory already." : "Memory stored.");
      location.hash = to("b", bank, "e", made.id);
    },
  });
}

function changing(bank, item) {
  const text = el("textarea", { name: "text", rows: 6, required: true, maxlength: 100000 }, item.text ?? "");
  const tags = written("tags", { value: (item.tags ?? []).join(", ") }), reason = written("reason");
  const wrong = el("input", { type: "checkbox", name: "wrong" });
  confirmDialog({
    heading: "Edit memory", does: "Save",
    body: "This creates a new version. The current one stays in the history.",
    rows: [field("Text", text), field("Tags", tags), check(wrong, "It was never true (a correction)"), field("Reason (optional)", reason)],
    act: async () => {
      const where = path("banks", bank, "entries", item.id);
      const change = { text: text.value, tags: tagged(tags), ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) };
      const made = wrong.checked ? await post(`${where}/correct`, change) : await patch(where, change, { "If-Match": `"${item.id}"` });
      notify("New version stored.");
      location.hash = to("b", bank, "e", made.id);
    },
  });
}

function forgetting(bank, item, again) {
  const reason = written("reason"), where = path("banks", bank, "entries", item.id);
  confirmDialog({
    heading: "Forget this memory", does: "Forget", danger: true,
    body: "It is no longer listed or recalled. It stays in the log and can be restored; to erase it permanently, use satchel erase.",
    rows: [field("Reason (optional)", reason)],
    act: async () => {
      await remove(where, { reason: reason.value.trim() });
      again();
      notify("Memory forgotten.", () => restored(bank, item, again));
    },
  });
}

async function restored(bank, item, again) {
  try {
    await post(path("banks", bank, "entries", item.id, "restore"));
    notify("Memory restored.");
  } catch (error) {
    notify(error.message);
  }
  again();
}

async function linked(bank, memory, retracted) {
  const near = await get(path("banks", bank, "entries", memory, "links"), { hops: 2, all: "true" });
  if (!near.things.length) return soft("It derives from no other memory, and none derives from it.");
  return [
    provenance(near, (record) => to("b", bank, "e", record), retracted),
    el("ul", { class: "list" }, near.things.map((record) => el("li", {},
      el("a", { class: "said", href: to("b", bank, "e", record.id) }, clipped(record.memory?.text || `${record.type ?? "record"} ${short(record.id)}`, 160)),
      chips(record.by.type.replaceAll("_", " "), `${count(record.hops, "step")} away`,
        record.state === "current" ? null : chip(record.state, "bad"))))),
    near.complete ? null : el("p", { class: "warn" }, "There are more links than are shown."),
  ];
}

const shortJson = (value) => clipped(JSON.stringify(value) ?? "nothing", 80);

async function past(bank, memory) {
  const { versions, left_out: left } = await get(path("banks", bank, "entries", memory, "history"));
  return [
    table(["version", "added", "state", "changes"], versions.map((version) => [
      version.id === memory ? el("strong", { class: "mono" }, short(version.id)) : link(to("b", bank, "e", version.id), mono(short(version.id))),
      when(version.arrived_at), chip(version.state, version.state === "current" ? "good" : ""),
      [...Object.entries(version.differs ?? {}).map(([name, [was, is]]) => el("div", {}, `${name}: ${shortJson(was)} → ${shortJson(is)}`)),
      ...(version.events ?? []).map((event) => el("div", { class: "soft" },
        `${event.state}${event.reason ? `: ${event.reason}` : ""}${event.actor ? ` (${event.actor})` : ""}`))],
    ])),
    left ? soft(`${count(left, "older version")} not shown`) : null,
  ];
}

const where = (scope) => ({ user: scope?.user, agent: scope?.agent, run: scope?.run, app: scope?.app });

export async function entry(bank, memory, again) {
  const shown = await get(path("banks", bank, "entries", memory));
  const item = TYPES.includes(shown.type) ? shown : null;
  const drawn = el("div"), versions = el("div");
  const retracted = item?.retracted ?? [];
  load(drawn, () => linked(bank, memory, retracted));
  if (item) load(versions, () => past(bank, memory));
  return [
    el("div", { class: "chips" }, chip(shown.record.type), chip(shown.state, shown.state === "current" ? "good" : "bad"), item ? badge(item) : null,
      item?.held ? chip("in quarantine", "bad") : null, item?.redacted ? chip("redacted", "bad") : null, (item?.tags ?? []).map((tag) => chip(`#${tag}`))),
    retracted.length ? el("p", { class: "warn" }, "This memory may be wrong: it derives from ",
      retracted.length === 1 ? "a memory that was" : "memories that were", " corrected or deleted: ",
      retracted.slice(0, 5).map((id, at) => [at ? ", " : "", link(to("b", bank, "e", id), mono(short(id)))]), ".") : null,
    el("div", { class: "text" }, item ? gist(item) : shown.record.type),
    item ? el("div", { class: "row" },
      shown.state === "current" ? [
        shown.record.text === undefined ? null : button("Edit", () => changing(bank, item)),
        quiet("Forget", () => forgetting(bank, item, again)),
      ] : null,
      ["deleted", "expired"].includes(shown.state) ? button("Restore", () => restored(bank, item, again)) : null) : null,
    facts({
      created: item?.created_at ? when(item.created_at) : null, happened: item?.occurred_at ? when(item.occurred_at) : null,
      added: when(shown.arrived_at), "valid from": item?.valid_from ? when(item.valid_from) : null,
      "valid until": item?.valid_until ? when(item.valid_until) : null, key: item?.key, kind: item?.kind, ...where(item?.scope),
      redacted: item?.redacted ? `${item.redacted.at} by ${item.redacted.by ?? "an unknown key"}: ${(item.redacted.fields ?? []).join(", ")}` : null,
      salience: item?.salience, from: item?.origin?.provider, "source id": item?.origin?.id, trust: item?.origin?.trust,
    }),
    el("h2", {}, "Provenance"), drawn,
    item ? [el("h2", {}, "Versions"), versions] : null,
    el("h2", {}, "Proof"),
    facts({
      id: mono(shown.record.id), "log position": `${number(shown.position + 1)} of ${number(shown.proof.size)}`, root: mono(shown.proof.root),
      "signed at": when(shown.proof.at), "signed by": mono(shown.proof.key), epoch: shown.proof.epoch,
    }),
    notes(shown.notes),
    more("Sealed record", json(shown.record)),
  ];
}
