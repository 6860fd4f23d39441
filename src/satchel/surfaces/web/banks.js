// Banks, and the memories of one: searched, and by when they are of.

import { get, path, post } from "./asking.js";
import { spanName, timeline } from "./drawing.js";
import { bytes, check, chip, chips, clipped, count, day, el, empty, field, json, link, more, mono, notes, number, options, quiet, short, soft, to, when } from "./making.js";
import { gist, remembering } from "./memory.js";
import { into, told } from "./telling.js";

export const named = (bank) => bank.name ?? short(bank.id);

export async function banks() {
  const { banks: found } = await get(path("banks"));
  const name = el("input", { name: "name", required: true, maxlength: 500, autocomplete: "off" });
  const place = el("div", { "aria-live": "polite" });
  const make = async (event) => {
    event.preventDefault();
    await into(place, async () => {
      const made = await post(path("banks"), { name: name.value });
      told(`${name.value} is there.`);
      location.hash = to("b", made.id);
    });
  };
  return [
    el("h1", {}, "Banks"),
    found.length ? soft("Each was opened and proved just now.")
      : empty("There is no bank yet.", "Create one here, or ", link("#/import", "import a file"), " of what an agent remembers."),
    el("ul", { class: "cards" }, found.map((bank) => el("li", {}, el("a", { class: "card", href: to("b", bank.id) },
      el("strong", { class: "clip" }, named(bank)),
      bank.problem
        ? el("p", { class: "bad" }, bank.problem)
        : soft(count(bank.records ?? 0, "record")),
      el("span", { class: "mono soft" }, short(bank.id)),
      bank.standing === "stranger" ? chips("a stranger's") : null,
    )))),
    el("h2", {}, "New bank"),
    el("form", { onsubmit: make }, el("label", { class: "wide" }, "Name", name), el("button", {}, "Create")),
    place,
  ];
}

const figures = (rows) => el("div", { class: "figures" }, rows.filter(Boolean).map(([what, much, where]) =>
  el(where ? "a" : "div", { href: where, class: where ? "figure" : null }, el("b", {}, number(much)), el("span", { class: "soft small" }, what))));

export async function bank(id, query) {
  const stats = await get(path("banks", id));
  const list = el("div"), months = stats.months ?? {};
  const span = /^\d{4}(-\d{2})?$/.test(query.get("when") ?? "") ? query.get("when") : "";
  const words = el("input", { name: "words", type: "search", value: query.get("q") ?? "", placeholder: "What do you want to know?" });
  const type = el("select", { name: "type" }, options([["", "all"], ...Object.keys(stats.types).map((one) => [one, one])], query.get("type")));
  const time = el("select", { name: "when" }, options(
    [["", "any time"], ...Object.keys(months).reverse().map((one) => [one, `${spanName(one)} (${number(months[one])})`])], span));
  if (span && time.value !== span) time.append(el("option", { value: span, selected: true }, spanName(span)));
  const past = el("input", { type: "checkbox", name: "past", checked: query.get("past") === "1" });
  const address = (changed) => {
    const said = new URLSearchParams();
    const now = { q: words.value.trim(), type: type.value, when: time.value, past: past.checked ? "1" : "", ...changed };
    for (const [name, value] of Object.entries(now)) if (value) said.set(name, value);
    return to("b", id) + (said.size ? `?${said}` : "");
  };
  const go = () => { location.hash = address({}); };
  for (const one of [type, time, past]) one.addEventListener("change", go);
  into(list, () => (query.get("q") ? recalled(id, query, span) : page(id, query, span)));
  return [
    figures([
      ["memories", stats.memories], ["records in the log", stats.records], ["imports", stats.imports, to("b", id, "import")],
      ["in quarantine", stats.held, to("b", id, "quarantine")],
    ]),
    notes(stats.notes),
    Object.keys(months).length > 1 ? timeline(months, span, (one) => address({ when: one ?? "", q: "" })) : null,
    el("form", { role: "search", onsubmit: (event) => { event.preventDefault(); go(); } },
      el("label", { class: "wide" }, "Search", words), el("button", {}, "Search"),
      el("div", { class: "row whole" }, field("Component", type), field("When", time), check(past, "the past too"),
        quiet("New memory", () => remembering(id), { class: "quiet end" }))),
    el("div", { id: "found", "aria-live": "polite" }, list),
    more("All counts", json(stats), el("p", { class: "soft small" }, `${bytes(stats.bytes)} as sealed`)),
  ];
}

// The bounds of a month or a year, the last of them not included.
function bounds(span) {
  if (!span) return {};
  const [year, month] = span.split("-").map(Number);
  const after = month === undefined ? [year + 1, 1] : month === 12 ? [year + 1, 1] : [year, month + 1];
  const first = ([y, m]) => `${String(y).padStart(4, "0")}-${String(m).padStart(2, "0")}-01`;
  return { since: first([year, month ?? 1]), until: first(after) };
}

async function recalled(id, query, span) {
  const found = await post(path("banks", id, "recall"), {
    text: query.get("q"), limit: 50, explain: true, code: false, ...bounds(span),
    ...(query.get("type") ? { type: query.get("type") } : {}),
  });
  if (!found.memories.length) return [empty("Nothing here goes with that.", "Other words may, or another month."), notes(found.notes)];
  return [
    el("h2", {}, count(found.memories.length, "memory", "memories") + " found"),
    el("ol", { class: "list" }, found.memories.map((one) => el("li", {},
      link(to("b", id, "e", one.id), el("span", { class: "said" }, clipped(one.text, 400))),
      chips(one.type, `trust: ${one.trust}`, one.score === undefined ? null : `score ${one.score.toFixed(2)}`,
        moment(one) ? when(moment(one)) : null)))),
    notes(found.notes),
    el("p", { class: "soft small" }, `Proved by the head of ${count(found.proved_by.size, "record")}, root `,
      mono(short(found.proved_by.root))),
  ];
}

const row = (id, one, dated) => el("li", {},
  el("a", { class: "said", href: to("b", id, "e", one.id) }, clipped(gist(one), 400)),
  chips(one.type, one.state === "current" ? null : chip(one.state, "bad"),
    one.held ? chip("in quarantine", "bad") : null,
    (one.tags ?? []).slice(0, 8).map((tag) => chip(`#${tag}`)), one.scope?.user ? `of ${one.scope.user}` : null,
    one.origin?.provider ? `from ${one.origin.provider}` : null,
    dated ? el("span", { class: "soft small" }, when(dated)) : null));

const moment = (one) => one.occurred_at ?? one.created_at ?? one.arrived_at ?? "";

// A month by when its memories are of; everything by when it arrived here, the newest first.
async function page(id, query, span, after) {
  const found = await get(path("banks", id, "entries"), {
    limit: span ? 500 : 50, after, type: query.get("type"), all: query.get("past") === "1" ? "true" : "", ...bounds(span),
  });
  const at = span ? moment : (one) => one.arrived_at ?? "";
  const all = span ? [...found.memories].sort((one, other) => moment(other).localeCompare(moment(one))) : found.memories;
  const days = [];
  for (const one of all) {
    const its = at(one).slice(0, 10);
    if (days.at(-1)?.[0] !== its) days.push([its, []]);
    days.at(-1)[1].push(one);
  }
  const rest = el("div");
  if (found.next !== undefined) {
    rest.append(el("p", {}, quiet("Show older", () => into(rest, () => page(id, query, span, found.next)))));
  }
  if (!found.memories.length && !after) {
    return span || query.get("type") ? empty("Nothing here is of that.", "Another month or component may have some.")
      : empty("There is nothing here yet.", "Write the first memory with ", el("strong", {}, "New memory"), ", or ", link(to("b", id, "import"), "import a file"), ".");
  }
  return [
    after ? null : el("h2", {}, span ? spanName(span) : "Newest"),
    days.map(([date, some]) => [el("h3", {}, day(date)),
      el("ul", { class: "list" }, some.map((one) => row(id, one, span || moment(one).slice(0, 10) !== date ? moment(one) : null)))]),
    rest,
  ];
}
