// One memory: its text, sources and versions, and its changes.

import { provenance } from "./charts.js";
import { button, check, chip, chips, clipped, count, el, facts, field, json, link, more, mono, notes, number, options, quiet, short, soft, table, to, when } from "./elements.js";
import { asks, into, notify } from "./feedback.js";
import { get, patch, path, post, remove } from "./requests.js";

export const TYPES = ["semantic", "episodic", "procedural", "working", "identity"];

// The text of a memory, or a description of one without text.
export const gist = (memory) => (["", "{}", "[]", "null", undefined].includes(memory.text) ? "(empty memory)" : memory.text);

// A note that a source of the memory was corrected or deleted, so that it may be wrong, too.
export const badge = (memory) => ((memory.retracted ?? []).length
  ? chip("built on a corrected memory", "warn") : null);

export const tagged = (input) => input.value.split(/[,\s]+/).map((one) => one.replace(/^#/, "")).filter(Boolean);
export const written = (name, more = {}) => el("input", { name, maxlength: 1000, autocomplete: "off", ...more });

export function remembering(bank) {
  const text = el("textarea", { name: "text", rows: 5, required: true, maxlength: 100000 });
  const tags = written("tags", { placeholder: "food, travel" }), user = written("user");
  const type = el("select", { name: "type" }, options(TYPES.slice(0, 4).map((one) => [one, one]), "semantic"));
  asks({
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

function changing(bank, one) {
  const text = el("textarea", { name: "text", rows: 6, required: true, maxlength: 100000 }, one.text ?? "");
  const tags = written("tags", { value: (one.tags ?? []).join(", ") }), reason = written("reason");
  const wrong = el("input", { type: "checkbox", name: "wrong" });
  asks({
    heading: "Edit memory", does: "Save",
    said: "This creates a new version. The current one stays in the history.",
    rows: [field("Text", text), field("Tags", tags), check(wrong, "It was never true (a correction)"), field("Reason (optional)", reason)],
    act: async () => {
      const where = path("banks", bank, "entries", one.id);
      const said = { text: text.value, tags: tagged(tags), ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) };
      const made = wrong.checked ? await post(`${where}/correct`, said) : await patch(where, said, { "If-Match": `"${one.id}"` });
      notify("New version stored.");
      location.hash = to("b", bank, "e", made.id);
    },
  });
}

function forgetting(bank, one, again) {
  const reason = written("reason"), where = path("banks", bank, "entries", one.id);
  asks({
    heading: "Forget this memory", does: "Forget", danger: true,
    said: "It is no longer listed or recalled. It stays in the log and can be restored; to erase it permanently, use satchel erase.",
    rows: [field("Reason (optional)", reason)],
    act: async () => {
      await remove(where, { reason: reason.value.trim() });
      again();
      notify("Memory forgotten.", () => restored(bank, one, again));
    },
  });
}

async function restored(bank, one, again) {
  try {
    await post(path("banks", bank, "entries", one.id, "restore"));
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
    provenance(near, (thing) => to("b", bank, "e", thing), retracted),
    el("ul", { class: "list" }, near.things.map((thing) => el("li", {},
      el("a", { class: "said", href: to("b", bank, "e", thing.id) }, clipped(thing.memory?.text || `${thing.type ?? "record"} ${short(thing.id)}`, 160)),
      chips(thing.by.type.replaceAll("_", " "), `${count(thing.hops, "step")} away`,
        thing.state === "current" ? null : chip(thing.state, "bad"))))),
    near.complete ? null : el("p", { class: "warn" }, "There are more links than are shown."),
  ];
}

const said = (value) => clipped(JSON.stringify(value) ?? "nothing", 80);

async function past(bank, memory) {
  const { versions, left_out: left } = await get(path("banks", bank, "entries", memory, "history"));
  return [
    table(["version", "added", "state", "changes"], versions.map((version) => [
      version.id === memory ? el("strong", { class: "mono" }, short(version.id)) : link(to("b", bank, "e", version.id), mono(short(version.id))),
      when(version.arrived_at), chip(version.state, version.state === "current" ? "good" : ""),
      [...Object.entries(version.differs ?? {}).map(([name, [was, is]]) => el("div", {}, `${name}: ${said(was)} → ${said(is)}`)),
      ...(version.events ?? []).map((event) => el("div", { class: "soft" },
        `${event.state}${event.reason ? `: ${event.reason}` : ""}${event.actor ? ` (${event.actor})` : ""}`))],
    ])),
    left ? soft(`${count(left, "older version")} not shown`) : null,
  ];
}

const where = (scope) => ({ user: scope?.user, agent: scope?.agent, run: scope?.run, app: scope?.app });

export async function entry(bank, memory, again) {
  const shown = await get(path("banks", bank, "entries", memory));
  const one = TYPES.includes(shown.type) ? shown : null;
  const drawn = el("div"), versions = el("div");
  const retracted = one?.retracted ?? [];
  into(drawn, () => linked(bank, memory, retracted));
  if (one) into(versions, () => past(bank, memory));
  return [
    el("div", { class: "chips" }, chip(shown.record.type), chip(shown.state, shown.state === "current" ? "good" : "bad"), one ? badge(one) : null,
      one?.held ? chip("in quarantine", "bad") : null, one?.redacted ? chip("redacted", "bad") : null, (one?.tags ?? []).map((tag) => chip(`#${tag}`))),
    retracted.length ? el("p", { class: "warn" }, "This memory may be wrong: it derives from ",
      retracted.length === 1 ? "a memory that was" : "memories that were", " corrected or deleted: ",
      retracted.slice(0, 5).map((id, at) => [at ? ", " : "", link(to("b", bank, "e", id), mono(short(id)))]), ".") : null,
    el("div", { class: "text" }, one ? gist(one) : shown.record.type),
    one ? el("div", { class: "row" },
      shown.state === "current" ? [
        shown.record.text === undefined ? null : button("Edit", () => changing(bank, one)),
        quiet("Forget", () => forgetting(bank, one, again)),
      ] : null,
      ["deleted", "expired"].includes(shown.state) ? button("Restore", () => restored(bank, one, again)) : null) : null,
    facts({
      created: one?.created_at ? when(one.created_at) : null, happened: one?.occurred_at ? when(one.occurred_at) : null,
      added: when(shown.arrived_at), "valid from": one?.valid_from ? when(one.valid_from) : null,
      "valid until": one?.valid_until ? when(one.valid_until) : null, key: one?.key, kind: one?.kind, ...where(one?.scope),
      redacted: one?.redacted ? `${one.redacted.at} by ${one.redacted.by ?? "an unknown key"}: ${(one.redacted.fields ?? []).join(", ")}` : null,
      salience: one?.salience, from: one?.origin?.provider, "source id": one?.origin?.id, trust: one?.origin?.trust,
    }),
    el("h2", {}, "Provenance"), drawn,
    one ? [el("h2", {}, "Versions"), versions] : null,
    el("h2", {}, "Proof"),
    facts({
      id: mono(shown.record.id), "log position": `${number(shown.position + 1)} of ${number(shown.proof.size)}`, root: mono(shown.proof.root),
      "signed at": when(shown.proof.at), "signed by": mono(shown.proof.key), epoch: shown.proof.epoch,
    }),
    notes(shown.notes),
    more("Sealed record", json(shown.record)),
  ];
}
