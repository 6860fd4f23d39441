// Banks, the memories of one by date, and search in one or in all of them.

import { spanName, timeline } from "./charts.js";
import { bytes, check, chip, chips, clipped, count, date, day, el, empty, field, highlighted, json, link, mono, more, notes, number, options, quiet, short, soft, to, when } from "./elements.js";
import { into, notify } from "./feedback.js";
import { badge, gist, remembering } from "./memory.js";
import { get, path, post } from "./requests.js";
import { selection } from "./selection.js";

const AT_ONCE = 3, IN_EACH = 5, FACETS = 12;

export const named = (bank) => bank.name ?? short(bank.id);

// Limits concurrent work.
const queue = { waiting: [], running: 0 };
async function soon(work) {
  queue.waiting.push(work);
  if (queue.running === AT_ONCE) return;
  queue.running += 1;
  while (queue.waiting.length) await queue.waiting.shift()();
  queue.running -= 1;
}

// Counting a bank verifies all of it, so it is done for visible cards only.
export function whenSeen(node, work) {
  const seen = new IntersectionObserver((found) => {
    if (!found.some((one) => one.isIntersecting)) return;
    seen.disconnect();
    soon(work);
  });
  seen.observe(node);
}

export async function banks(query) {
  const { banks: found } = await get(path("banks"));
  const name = el("input", { name: "name", required: true, maxlength: 500, autocomplete: "off" });
  const place = el("div", { "aria-live": "polite" });
  const make = async (event) => {
    event.preventDefault();
    await into(place, async () => {
      const made = await post(path("banks"), { name: name.value });
      notify(`Created ${name.value}.`);
      location.hash = to("b", made.id);
    });
  };
  const words = el("input", { name: "words", type: "search", value: query.get("q") ?? "", placeholder: "What do you want to know?" });
  const results = el("div", { id: "found", "aria-live": "polite" });
  if (query.get("q")) searched(found, query.get("q"), results);
  const cards = found.map((bank) => card(bank));
  for (const [bank, details, item] of cards) {
    if (!bank.problem) whenSeen(item, () => item.isConnected && into(details, () => summary(bank).catch((error) => el("p", { class: "bad" }, error.message))));
  }
  return [
    el("h1", {}, "Banks"),
    found.length ? null : empty("There is no bank yet.", "Create one here, or ", link("#/import", "import a file"), " of what an agent remembers."),
    found.length > 1 ? el("form", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      location.hash = words.value.trim() ? `#/?q=${encodeURIComponent(words.value.trim())}` : "#/";
    } }, el("label", { class: "wide" }, "Search all banks", words), el("button", {}, "Search")) : null,
    results,
    el("ul", { class: "cards" }, cards.map(([, , item]) => item)),
    el("h2", {}, "New bank"),
    el("form", { onsubmit: make }, el("label", { class: "wide" }, "Name", name), el("button", {}, "Create")),
    place,
  ];
}

function card(bank) {
  const details = el("div", { class: "small card-facts" });
  return [bank, details, el("li", {}, el("a", { class: "card", href: to("b", bank.id) },
    el("strong", { class: "clip" }, named(bank)),
    bank.problem ? el("p", { class: "bad" }, bank.problem) : details,
    chips(el("span", { class: "mono soft", title: bank.id }, short(bank.id)), bank.default ? chip("default") : null,
      bank.trust && bank.trust !== "own" ? chip("untrusted owner", "bad") : null)))];
}

async function summary(bank) {
  const [stats, { owners }] = await Promise.all([get(path("banks", bank.id)), get(path("banks", bank.id, "owners"))]);
  const names = owners.map((one) => (one.signs ? `you (${one.name ?? short(one.key)})` : one.name ?? `\u2026${one.key.slice(-8)}`));
  return el("dl", { class: "pairs" }, [
    ["Memories", number(stats.memories)], ["Last change", when(stats.changed_at)],
    ["Owner", clipped(names.join(", "), 60)], ["Size", `${bytes(stats.bytes)}, ${count(stats.records, "log entry", "log entries")}`],
  ].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// Search in all banks, with results by bank, as scores of two banks cannot be compared.
function searched(found, text, place) {
  let hits = 0, left = found.filter((bank) => !bank.problem).length;
  const here = location.hash;
  const status = el("p", { class: "soft", role: "status" }, "Searching\u2026");
  place.replaceChildren(el("h2", {}, "Search results"), status);
  for (const bank of found.filter((one) => !one.problem)) soon(async () => {
    if (location.hash !== here) return; // the page shows something else by now
    const section = el("section");
    place.append(section);
    await into(section, async () => {
      const answer = await post(path("banks", bank.id, "recall"), { text, limit: IN_EACH, explain: true, code: false });
      if (!answer.memories.length) return null;
      hits += answer.memories.length;
      return [
        el("h3", {}, clipped(named(bank), 80)),
        results(bank.id, answer),
        el("p", { class: "small" }, link(`${to("b", bank.id)}?q=${encodeURIComponent(text)}`, "Search this bank only")),
      ];
    });
    left -= 1;
    if (!left) status.textContent = hits ? `${count(hits, "result")} in ${count(found.length, "bank")}.` : "No memory of any bank matches. Try other words.";
  });
}

const WHY = { words: "same words", phrase: "same phrase", meaning: "similar meaning", linked: "linked", thread: "same conversation", time: "same time" };

// Shows the parts of a result's score; the number itself has no meaning for a person.
const why = (one) => Object.entries(WHY).filter(([name]) => (one.why?.[name] ?? 0) > 0.05).map(([, said]) => said).join(", ");

const results = (id, found, pick) => el("ol", { class: "list" }, found.memories.map((one) => item(pick?.(one),
  el("a", { class: "said", href: to("b", id, "e", one.id) }, highlighted(one.text, [...(one.terms ?? []), ...(found.plan?.terms ?? [])])),
  chips(one.type, `trust: ${one.trust}`, why(one) ? chip(why(one)) : null, created(one) ? when(created(one)) : null))));

// A memory in a list, with a checkbox where it can be selected.
const item = (picked, ...parts) => (picked ? el("li", { class: "pickable" }, picked, el("div", {}, parts)) : el("li", {}, parts));

const figures = (rows) => el("div", { class: "figures" }, rows.filter(Boolean).map(([what, much, where]) =>
  el(where ? "a" : "div", { href: where, class: where ? "figure" : null }, el("b", {}, number(much)), el("span", { class: "soft small" }, what))));

export async function bank(id, query, again) {
  const stats = await get(path("banks", id));
  const list = el("div"), months = stats.months ?? {};
  const span = /^\d{4}(-\d{2})?$/.test(query.get("when") ?? "") ? query.get("when") : "";
  const words = el("input", { name: "words", type: "search", value: query.get("q") ?? "", placeholder: "What do you want to know?" });
  const type = el("select", { name: "type" }, options([["", "all"], ...Object.keys(stats.types).map((one) => [one, one])], query.get("type")));
  const time = el("select", { name: "when" }, options(
    [["", "any time"], ...Object.keys(months).reverse().map((one) => [one, `${spanName(one)} (${number(months[one])})`])], span));
  if (span && time.value !== span) time.append(el("option", { value: span, selected: true }, spanName(span)));
  const sort = el("select", { name: "sort" }, options([["added", "date added"], ["created", "date created"]], sorted(query, span)));
  const past = el("input", { type: "checkbox", name: "past", checked: query.get("past") === "1" });
  const address = (changed) => {
    const said = new URLSearchParams();
    const now = { q: words.value.trim(), type: type.value, when: time.value, past: past.checked ? "1" : "",
      user: query.get("user"), tag: query.get("tag"), sort: query.get("sort"), ...changed };
    for (const [name, value] of Object.entries(now)) if (value) said.set(name, value);
    return to("b", id) + (said.size ? `?${said}` : "");
  };
  const go = () => { location.hash = address({}); };
  for (const one of [type, time, past]) one.addEventListener("change", go);
  sort.addEventListener("change", () => { location.hash = address({ sort: sort.value }); });
  const picked = selection(id, again); // counts and facets change, too
  into(list, () => (query.get("q") ? recalled(id, query, span, picked) : page(id, query, span, picked)));
  return [
    figures([
      ["memories", stats.memories], ["log entries", stats.records, to("b", id, "log")], ["imports", stats.imports, to("b", id, "import")],
      ["in quarantine", stats.held, to("b", id, "quarantine")],
    ]),
    notes(stats.notes),
    Object.keys(months).length ? timeline(months, span, (one) => address({ when: one ?? "", q: "" })) : null,
    el("form", { role: "search", onsubmit: (event) => { event.preventDefault(); go(); } },
      el("label", { class: "wide" }, "Search", words), el("button", {}, "Search"),
      el("div", { class: "row whole" }, field("Type", type), field("Created in", time), field("Sort by", sort), check(past, "Include history"),
        quiet("New memory", () => remembering(id), { class: "quiet end" }))),
    facets("User", "user", stats.users, query, address), facets("Tag", "tag", stats.tags, query, address),
    el("div", { id: "found", "aria-live": "polite" }, list),
    more("All counts", json(stats), el("p", { class: "soft small" }, `${bytes(stats.bytes)} of sealed records`)),
  ];
}

const sorted = (query, span) => (["added", "created"].includes(query.get("sort")) ? query.get("sort") : span ? "created" : "added");

// Filters by owner and tag; each can be selected and cleared.
function facets(said, name, counts, query, address) {
  const chosen = query.get(name), all = Object.entries(counts ?? {});
  if (!all.length && !chosen) return null;
  const shown = all.slice(0, FACETS), mark = name === "tag" ? "#" : "";
  if (chosen && !shown.some(([value]) => value === chosen)) shown.unshift([chosen, counts[chosen] ?? 0]);
  const others = all.length - shown.length;
  return el("nav", { class: "facets", "aria-label": `Filter by ${said.toLowerCase()}` }, el("span", { class: "soft small" }, said),
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
  const found = await post(path("banks", id, "recall"), {
    text: query.get("q"), limit: 50, explain: true, code: false, ...bounds(span),
    ...(query.get("type") ? { type: query.get("type") } : {}), ...(query.get("user") ? { user: query.get("user") } : {}),
    ...(query.get("tag") ? { tags: [query.get("tag")] } : {}),
  });
  if (!found.memories.length) return [empty("No memories found.", "Try other words, or another month, type, user or tag."), notes(found.notes)];
  return [
    head(el("h2", {}, count(found.memories.length, "result"))),
    soft("Best match first."),
    results(id, found, pick),
    bar,
    notes(found.notes),
    el("p", { class: "soft small" }, `Verified against the signed log of ${count(found.proved_by.size, "record")}, root `,
      mono(short(found.proved_by.root))),
  ];
}

const created = (one) => one.occurred_at ?? one.created_at ?? one.arrived_at ?? "";

const row = (id, one, other, pick) => item(pick(one),
  el("a", { class: "said", href: to("b", id, "e", one.id) }, clipped(gist(one), 400)),
  chips(one.type, one.state === "current" ? null : chip(one.state, "bad"), badge(one),
    one.held ? chip("in quarantine", "bad") : null,
    (one.tags ?? []).slice(0, 8).map((tag) => chip(`#${tag}`)), one.scope?.user ? `user: ${one.scope.user}` : null,
    one.origin?.provider ? `from ${one.origin.provider}` : null, other));

// By the date of addition, or of occurrence or creation; days use the same date.
async function page(id, query, span, picked, after) {
  const sort = sorted(query, span), byAdded = sort === "added";
  const found = await get(path("banks", id, "entries"), {
    limit: 50, after, sort, type: query.get("type"), user: query.get("user"), tags: query.get("tag"),
    all: query.get("past") === "1" ? "true" : "", ...bounds(span),
  });
  const at = byAdded ? (one) => one.arrived_at ?? "" : created;
  const other = (one) => {
    const [said, moment] = byAdded ? ["created", created(one)] : ["added", one.arrived_at ?? ""];
    return moment.slice(0, 10) === at(one).slice(0, 10) ? null : el("span", { class: "soft" }, `${said} `, date(moment));
  };
  const days = [];
  for (const one of found.memories) {
    const its = at(one).slice(0, 10);
    if (days.at(-1)?.[0] !== its) days.push([its, []]);
    days.at(-1)[1].push(one);
  }
  const rest = el("div");
  if (found.next !== undefined) {
    rest.append(el("p", {}, quiet("Show older", () => into(rest, () => page(id, query, span, picked, found.next)))));
  }
  if (!found.memories.length && after === undefined) {
    return ["type", "user", "tag"].some((name) => query.get(name)) || span ? empty("No memories found.", "Choose another month, type, user or tag.")
      : empty("There are no memories yet.", "Write the first with ", el("strong", {}, "New memory"), ", or ", link(to("b", id, "import"), "import a file"), ".");
  }
  return [
    after === undefined ? picked.head(el("h2", {}, span ? spanName(span) : byAdded ? "Newest" : "By date created")) : null,
    days.map(([its, some]) => [el("h3", {}, day(its)), el("ul", { class: "list" }, some.map((one) => row(id, one, other(one), picked.pick)))]),
    rest,
    after === undefined ? picked.bar : null,
  ];
}
