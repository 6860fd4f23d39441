// Banks, the memories of one by date, and search in one or in all of them.

import { spanName, timeline } from "./charts.js";
import { bytes, check, chip, chips, clipped, count, date, day, el, empty, field, highlighted, json, link, mono, more, notes, number, options, quiet, short, soft, to, when } from "./elements.js";
import { load, notify } from "./feedback.js";
import { badge, gist, newMemory } from "./memory.js";
import { get, path, post } from "./requests.js";
import { selection } from "./selection.js";

const AT_ONCE = 3, IN_EACH = 5, FACETS = 12;

export const bankName = (bank) => bank.name ?? short(bank.id);

// Limits concurrent work.
const queue = { waiting: [], running: 0 };
async function enqueue(work) {
  queue.waiting.push(work);
  if (queue.running === AT_ONCE) return;
  queue.running += 1;
  while (queue.waiting.length) await queue.waiting.shift()();
  queue.running -= 1;
}

// Counting a bank verifies all of it, so it is done for visible cards only.
export function onVisible(node, work) {
  const seen = new IntersectionObserver((result) => {
    if (!result.some((item) => item.isIntersecting)) return;
    seen.disconnect();
    enqueue(work);
  });
  seen.observe(node);
}

export async function banks(query) {
  const { banks: result } = await get(path("banks"));
  const name = el("input", { name: "name", required: true, maxlength: 500, autocomplete: "off" });
  const container = el("div", { "aria-live": "polite" });
  const make = async (event) => {
    event.preventDefault();
    await load(container, async () => {
      const made = await post(path("banks"), { name: name.value });
      notify(`Created ${name.value}.`);
      location.hash = to("b", made.id);
    });
  };
  const words = el("input", { name: "words", type: "search", value: query.get("q") ?? "", placeholder: "What do you want to know?" });
  const results = el("div", { id: "found", "aria-live": "polite" });
  if (query.get("q")) searched(result, query.get("q"), results);
  const cards = result.map((bank) => card(bank));
  for (const [bank, details, item] of cards) {
    if (!bank.problem) onVisible(item, () => item.isConnected && load(details, () => summary(bank).catch((error) => el("p", { class: "bad" }, error.message))));
  }
  return [
    el("h1", {}, "Banks"),
    result.length ? null : empty("There is no bank yet.", "Create one here, or ", link("#/import", "import a file"), " of what an agent remembers."),
    result.length > 1 ? el("form", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      location.hash = words.value.trim() ? `#/?q=${encodeURIComponent(words.value.trim())}` : "#/";
    } }, el("label", { class: "wide" }, "Search all banks", words), el("button", {}, "Search")) : null,
    results,
    el("ul", { class: "cards" }, cards.map(([, , item]) => item)),
    el("h2", {}, "New bank"),
    el("form", { onsubmit: make }, el("label", { class: "wide" }, "Name", name), el("button", {}, "Create")),
    container,
  ];
}

function card(bank) {
  const details = el("div", { class: "small card-facts" });
  return [bank, details, el("li", {}, el("a", { class: "card", href: to("b", bank.id) },
    el("strong", { class: "clip" }, bankName(bank)),
    bank.problem ? el("p", { class: "bad" }, bank.problem) : details,
    chips(el("span", { class: "mono soft", title: bank.id }, short(bank.id)), bank.default ? chip("default") : null,
      bank.trust && bank.trust !== "own" ? chip("untrusted owner", "bad") : null)))];
}

async function summary(bank) {
  const [stats, { owners }] = await Promise.all([get(path("banks", bank.id)), get(path("banks", bank.id, "owners"))]);
  const names = owners.map((item) => (item.signs ? `you (${item.name ?? short(item.key)})` : item.name ?? `\u2026${item.key.slice(-8)}`));
  return el("dl", { class: "pairs" }, [
    ["Memories", number(stats.memories)], ["Last change", when(stats.changed_at)],
    ["Owner", clipped(names.join(", "), 60)], ["Size", `${bytes(stats.bytes)}, ${count(stats.records, "log entry", "log entries")}`],
  ].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// Search in all banks, with results by bank, as scores of two banks cannot be compared.
function searched(result, text, container) {
  let hits = 0, left = result.filter((bank) => !bank.problem).length;
  const here = location.hash;
  const status = el("p", { class: "soft", role: "status" }, "Searching\u2026");
  container.replaceChildren(el("h2", {}, "Search results"), status);
  for (const bank of result.filter((item) => !item.problem)) enqueue(async () => {
    if (location.hash !== here) return; // the page shows something else by now
    const section = el("section");
    container.append(section);
    await load(section, async () => {
      const answer = await post(path("banks", bank.id, "recall"), { text, limit: IN_EACH, explain: true, code: false });
      if (!answer.memories.length) return null;
      hits += answer.memories.length;
      return [
        el("h3", {}, clipped(bankName(bank), 80)),
        results(bank.id, answer),
        el("p", { class: "small" }, link(`${to("b", bank.id)}?q=${encodeURIComponent(text)}`, "Search this bank only")),
      ];
    });
    left -= 1;
    if (!left) status.textContent = hits ? `${count(hits, "result")} in ${count(result.length, "bank")}.` : "No memory of any bank matches. Try other words.";
  });
}

const WHY = { words: "same words", phrase: "same phrase", meaning: "similar meaning", linked: "linked", thread: "same conversation", time: "same time" };

// Shows the parts of a result's score; the number itself has no meaning for a person.
const why = (item) => Object.entries(WHY).filter(([name]) => (item.why?.[name] ?? 0) > 0.05).map(([, label]) => label).join(", ");

const results = (id, result, pick) => el("ol", { class: "list" }, result.memories.map((memory) => item(pick?.(memory),
  el("a", { class: "said", href: to("b", id, "e", memory.id) }, highlighted(memory.text, [...(memory.terms ?? []), ...(result.plan?.terms ?? [])])),
  chips(memory.type, `trust: ${memory.trust}`, why(memory) ? chip(why(memory)) : null, created(memory) ? when(created(memory)) : null))));

// A memory in a list, with a checkbox where it can be selected.
const item = (picked, ...parts) => (picked ? el("li", { class: "pickable" }, picked, el("div", {}, parts)) : el("li", {}, parts));

const figures = (rows) => el("div", { class: "figures" }, rows.filter(Boolean).map(([what, much, where]) =>
  el(where ? "a" : "div", { href: where, class: where ? "figure" : null }, el("b", {}, number(much)), el("span", { class: "soft small" }, what))));

export async function bank(id, query, again) {
  const stats = await get(path("banks", id));
  const list = el("div"), months = stats.months ?? {};
  const span = /^\d{4}(-\d{2})?$/.test(query.get("when") ?? "") ? query.get("when") : "";
  const words = el("input", { name: "words", type: "search", value: query.get("q") ?? "", placeholder: "What do you want to know?" });
  const type = el("select", { name: "type" }, options([["", "all"], ...Object.keys(stats.types).map((item) => [item, item])], query.get("type")));
  const time = el("select", { name: "when" }, options(
    [["", "any time"], ...Object.keys(months).reverse().map((item) => [item, `${spanName(item)} (${number(months[item])})`])], span));
  if (span && time.value !== span) time.append(el("option", { value: span, selected: true }, spanName(span)));
  const sort = el("select", { name: "sort" }, options([["added", "date added"], ["created", "date created"]], sorted(query, span)));
  const past = el("input", { type: "checkbox", name: "past", checked: query.get("past") === "1" });
  const address = (changed) => {
    const params = new URLSearchParams();
    const now = { q: words.value.trim(), type: type.value, when: time.value, past: past.checked ? "1" : "",
      user: query.get("user"), tag: query.get("tag"), sort: query.get("sort"), ...changed };
    for (const [name, value] of Object.entries(now)) if (value) params.set(name, value);
    return to("b", id) + (params.size ? `?${params}` : "");
  };
  const go = () => { location.hash = address({}); };
  for (const item of [type, time, past]) item.addEventListener("change", go);
  sort.addEventListener("change", () => { location.hash = address({ sort: sort.value }); });
  const picked = selection(id, again); // counts and facets change, too
  load(list, () => (query.get("q") ? recalled(id, query, span, picked) : page(id, query, span, picked)));
  return [
    figures([
      ["memories", stats.memories], ["log entries", stats.records, to("b", id, "log")], ["imports", stats.imports, to("b", id, "import")],
      ["in quarantine", stats.held, to("b", id, "quarantine")],
    ]),
    notes(stats.notes),
    Object.keys(months).length ? timeline(months, span, (item) => address({ when: item ?? "", q: "" })) : null,
    el("form", { role: "search", onsubmit: (event) => { event.preventDefault(); go(); } },
      el("label", { class: "wide" }, "Search", words), el("button", {}, "Search"),
      el("div", { class: "row whole" }, field("Type", type), field("Created in", time), field("Sort by", sort), check(past, "Include history"),
        quiet("New memory", () => newMemory(id), { class: "quiet end" }))),
    facets("User", "user", stats.users, query, address), facets("Tag", "tag", stats.tags, query, address),
    el("div", { id: "found", "aria-live": "polite" }, list),
    more("All counts", json(stats), el("p", { class: "soft small" }, `${bytes(stats.bytes)} of sealed records`)),
  ];
}

const sorted = (query, span) => (["added", "created"].includes(query.get("sort")) ? query.get("sort") : span ? "created" : "added");

// Filters by owner and tag; each can be selected and cleared.
function facets(label, name, counts, query, address) {
  const chosen = query.get(name), all = Object.entries(counts ?? {});
  if (!all.length && !chosen) return null;
  const shown = all.slice(0, FACETS), mark = name === "tag" ? "#" : "";
  if (chosen && !shown.some(([value]) => value === chosen)) shown.unshift([chosen, counts[chosen] ?? 0]);
  const others = all.length - shown.length;
  return el("nav", { class: "facets", "aria-label": `Filter by ${label.toLowerCase()}` }, el("span", { class: "soft small" }, label),
    shown.map(([value, much]) => el("a", { class: "chip", href: address({ [name]: value === chosen ? "" : value }), "aria-current": value === chosen ? "true" : null },
      `${mark}${clipped(value, 40)}`, el("span", { class: "soft" }, ` ${number(much)}`), value === chosen ? " \u00d7" : "")),
    others > 0 ? el("span", { class: "soft small" }, `and ${number(others)} more`) : null);
}

// The bounds of a month or a year, the end exclusive.
function bounds(span) {
  if (!span) return {};
  const [year, month] = span.split("-").map(Number);
  const after = month === undefined ? [year + 1, 1] : month === 12 ? [year + 1, 1] : [year, month + 1];
  const first = ([y, m]) => `${String(y).padStart(4, "0")}-${String(m).padStart(2, "0")}-01`;
  return { since: first([year, month ?? 1]), until: first(after) };
}

async function recalled(id, query, span, { bar, head, pick }) {
  const result = await post(path("banks", id, "recall"), {
    text: query.get("q"), limit: 50, explain: true, code: false, ...bounds(span),
    ...(query.get("type") ? { type: query.get("type") } : {}), ...(query.get("user") ? { user: query.get("user") } : {}),
    ...(query.get("tag") ? { tags: [query.get("tag")] } : {}),
  });
  if (!result.memories.length) return [empty("No memories found.", "Try other words, or another month, type, user or tag."), notes(result.notes)];
  return [
    head(el("h2", {}, count(result.memories.length, "result"))),
    soft("Best match first."),
    results(id, result, pick),
    bar,
    notes(result.notes),
    el("p", { class: "soft small" }, `Verified against the signed log of ${count(result.proved_by.size, "record")}, root `,
      mono(short(result.proved_by.root))),
  ];
}

const created = (item) => item.occurred_at ?? item.created_at ?? item.arrived_at ?? "";

const row = (id, memory, other, pick) => item(pick(memory),
  el("a", { class: "said", href: to("b", id, "e", memory.id) }, clipped(gist(memory), 400)),
  chips(memory.type, memory.state === "current" ? null : chip(memory.state, "bad"), badge(memory),
    memory.held ? chip("in quarantine", "bad") : null,
    (memory.tags ?? []).slice(0, 8).map((tag) => chip(`#${tag}`)), memory.scope?.user ? `user: ${memory.scope.user}` : null,
    memory.origin?.provider ? `from ${memory.origin.provider}` : null, other));

// By the date of addition, or of occurrence or creation; days use the same date.
async function page(id, query, span, picked, after) {
  const sort = sorted(query, span), byAdded = sort === "added";
  const result = await get(path("banks", id, "entries"), {
    limit: 50, after, sort, type: query.get("type"), user: query.get("user"), tags: query.get("tag"),
    all: query.get("past") === "1" ? "true" : "", ...bounds(span),
  });
  const at = byAdded ? (item) => item.arrived_at ?? "" : created;
  const other = (item) => {
    const [label, moment] = byAdded ? ["created", created(item)] : ["added", item.arrived_at ?? ""];
    return moment.slice(0, 10) === at(item).slice(0, 10) ? null : el("span", { class: "soft" }, `${label} `, date(moment));
  };
  const days = [];
  for (const item of result.memories) {
    const its = at(item).slice(0, 10);
    if (days.at(-1)?.[0] !== its) days.push([its, []]);
    days.at(-1)[1].push(item);
  }
  const rest = el("div");
  if (result.next !== undefined) {
    rest.append(el("p", {}, quiet("Show older", () => load(rest, () => page(id, query, span, picked, result.next)))));
  }
  if (!result.memories.length && after === undefined) {
    return ["type", "user", "tag"].some((name) => query.get(name)) || span ? empty("No memories found.", "Choose another month, type, user or tag.")
      : empty("There are no memories yet.", "Write the first with ", el("strong", {}, "New memory"), ", or ", link(to("b", id, "import"), "import a file"), ".");
  }
  return [
    after === undefined ? picked.head(el("h2", {}, span ? spanName(span) : byAdded ? "Newest" : "By date created")) : null,
    days.map(([its, some]) => [el("h3", {}, day(its)), el("ul", { class: "list" }, some.map((item) => row(id, item, other(item), picked.pick)))]),
    rest,
    after === undefined ? picked.bar : null,
  ];
}
