// Banks, their memories, and where each memory comes from.

import { get, path, post } from "./asking.js";
import { provenance } from "./drawing.js";
import { bytes, chips, clipped, count, el, facts, into, json, link, notes, short, table, to, told, when } from "./making.js";

export const named = (bank) => bank.name ?? short(bank.id);

const gist = (memory) => {
  const more = memory.members ?? {};
  const said = memory.text ?? more.observation
    ?? [more.subject, more.predicate, more.object].filter(Boolean).join(" ");
  return said || [more.name, more.description].filter(Boolean).join(": ") || JSON.stringify(memory.data ?? more);
};

export async function banks() {
  const { banks: found } = await get(path("banks"));
  const name = el("input", { name: "name", required: true, maxlength: 500, autocomplete: "off" });
  const place = el("div");
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
    el("p", { class: "soft" }, found.length ? "Each was opened and proved just now." : "There is none yet: make one, or import a file."),
    el("ul", { class: "cards" }, found.map((bank) => el("li", {}, el("a", { class: "card", href: to("b", bank.id) },
      el("strong", {}, named(bank)),
      bank.problem
        ? el("p", { class: "bad" }, bank.problem)
        : el("p", { class: "soft" }, count(bank.records ?? 0, "record"), bank.standing === "stranger" ? " · a stranger's" : ""),
      el("span", { class: "mono soft" }, short(bank.id)),
    )))),
    el("h2", {}, "A new bank"),
    el("form", { onsubmit: make }, el("label", { class: "wide" }, "Name", name), el("button", {}, "Make it")),
    place,
  ];
}

const numbers = (found) => el("div", { class: "figures" }, Object.entries(found).map(([what, number]) =>
  el("div", {}, el("b", {}, Number(number).toLocaleString("en")), el("span", { class: "soft small" }, what))));

export async function bank(id, query) {
  const stats = await get(path("banks", id));
  const list = el("div");
  const words = el("input", { name: "words", type: "search", value: query.get("q") ?? "", placeholder: "What do you want to know?" });
  const type = el("select", { name: "type" }, el("option", { value: "" }, "any kind"),
    Object.keys(stats.types).map((one) => el("option", { value: one, selected: query.get("type") === one }, one)));
  const past = el("input", { type: "checkbox", name: "past", checked: query.get("past") === "1" });
  const ask = (event) => {
    event.preventDefault();
    const said = new URLSearchParams();
    if (words.value.trim()) said.set("q", words.value.trim());
    if (type.value) said.set("type", type.value);
    if (past.checked) said.set("past", "1");
    location.hash = to("b", id) + (said.size ? `?${said}` : "");
  };
  into(list, () => (query.get("q") ? recalled(id, query) : page(id, query, list)));
  return [
    numbers({
      memories: stats.memories, records: stats.records, imports: stats.imports, "in quarantine": stats.held,
      ...(Object.keys(stats.types).length > 1 ? stats.types : {}),
    }),
    notes(stats.notes),
    el("form", { role: "search", onsubmit: ask },
      el("label", { class: "wide" }, "Search", words),
      el("label", {}, "Kind", type),
      el("label", { class: "check" }, past, "the past too"),
      el("button", {}, "Search")),
    el("div", { id: "found" }, list),
    el("details", {}, el("summary", {}, "All counts"), json(stats),
      el("p", { class: "soft small" }, `${bytes(stats.bytes)} as sealed`)),
  ];
}

async function recalled(id, query) {
  const found = await post(path("banks", id, "recall"), {
    text: query.get("q"), limit: 50, explain: true, code: false,
    ...(query.get("type") ? { type: query.get("type") } : {}),
  });
  return [
    el("h2", {}, count(found.memories.length, "memory", "memories") + " found"),
    el("ol", { class: "list" }, found.memories.map((one) => el("li", {},
      link(to("b", id, "e", one.id), el("span", { class: "said" }, clipped(one.text, 400))),
      chips(one.type, `trust: ${one.trust}`, one.score === undefined ? null : `score ${one.score.toFixed(2)}`,
        one.moment ? when(one.moment) : null)))),
    notes(found.notes),
    el("p", { class: "soft small" }, `Proved by the head of ${count(found.proved_by.size, "record")}, root `,
      el("span", { class: "mono" }, short(found.proved_by.root))),
  ];
}

const row = (id, one) => el("li", {},
  el("a", { class: "said", href: to("b", id, "e", one.id) }, clipped(gist(one), 400)),
  chips(one.type, one.state === "current" ? null : el("span", { class: "chip bad" }, one.state),
    one.held ? el("span", { class: "chip bad" }, "in quarantine") : null,
    (one.tags ?? []).slice(0, 8).map((tag) => `#${tag}`), one.scope?.user ? `of ${one.scope.user}` : null,
    one.origin?.provider ? `from ${one.origin.provider}` : null));

const day = (one) => (one.occurred_at ?? one.created_at ?? one.arrived_at ?? "").slice(0, 10);

async function page(id, query, list, after) {
  const found = await get(path("banks", id, "entries"), {
    limit: 50, after, type: query.get("type"), everything: query.get("past") === "1" ? "true" : "",
  });
  const days = [];
  for (const one of found.memories) {
    if (days.at(-1)?.[0] !== day(one)) days.push([day(one), []]);
    days.at(-1)[1].push(one);
  }
  const more = el("div");
  if (found.next !== undefined) {
    more.append(el("p", {}, el("button", { type: "button", class: "quiet",
      onclick: () => into(more, () => page(id, query, list, found.next)) }, "Older ones")));
  }
  return [
    found.memories.length || after ? null : el("p", { class: "soft" }, "There is nothing here yet."),
    days.map(([date, all]) => [el("h3", {}, date), el("ul", { class: "list" }, all.map((one) => row(id, one)))]),
    more,
  ];
}

export async function entry(id, memory) {
  const shown = await get(path("banks", id, "entries", memory));
  const one = shown.memory;
  const drawn = el("div"), past = el("div");
  into(drawn, async () => {
    const near = await get(path("banks", id, "entries", memory, "links"), { hops: 2 });
    if (!near.things.length) return el("p", { class: "soft" }, "It was drawn from no other memory, and none was drawn from it.");
    return [
      provenance(near, (thing) => to("b", id, "e", thing)),
      el("ul", { class: "list" }, near.things.map((thing) => el("li", {},
        el("a", { class: "said", href: to("b", id, "e", thing.id) }, clipped(thing.text ?? thing.id, 160)),
        chips(thing.by.type.replaceAll("_", " "), `${count(thing.hops, "step")} away`,
          thing.state === "current" ? null : thing.state)))),
      near.complete ? null : el("p", { class: "warn" }, "There are more links than were looked at."),
    ];
  });
  into(past, async () => {
    if (!one) return null;
    const { versions, left_out: left } = await get(path("banks", id, "entries", memory, "history"));
    return [
      table(["version", "arrived", "state", "what is different"], versions.map((version) => [
        version.id === memory ? el("strong", {}, short(version.id)) : link(to("b", id, "e", version.id), short(version.id)),
        when(version.arrived_at), version.state,
        [...Object.entries(version.differs ?? {}).map(([name, [was, is]]) =>
          el("div", {}, `${name}: ${clipped(JSON.stringify(was), 80)} → ${clipped(JSON.stringify(is), 80)}`)),
        ...(version.events ?? []).map((event) => el("div", { class: "soft" },
          `${event.state}${event.reason ? `: ${event.reason}` : ""}${event.actor ? ` (${event.actor})` : ""}`))],
      ])),
      left ? el("p", { class: "soft" }, `${count(left, "older version")} not shown`) : null,
    ];
  });
  return [
    el("div", { class: "row" }, el("span", { class: "chip" }, shown.record.type),
      el("span", { class: `chip ${shown.state === "current" ? "good" : "bad"}` }, shown.state),
      one?.held ? el("span", { class: "chip bad" }, "in quarantine") : null,
      ((one?.tags) ?? []).map((tag) => el("span", { class: "chip" }, `#${tag}`))),
    el("div", { class: "text" }, one ? gist(one) : shown.record.type),
    facts({
      made: one?.created_at ? when(one.created_at) : null, happened: one?.occurred_at ? when(one.occurred_at) : null,
      "arrived here": when(shown.arrived_at), "valid from": one?.valid_from ? when(one.valid_from) : null,
      "valid until": one?.valid_until ? when(one.valid_until) : null, key: one?.key, kind: one?.kind,
      user: one?.scope?.user, agent: one?.scope?.agent, run: one?.scope?.run, app: one?.scope?.app,
      salience: one?.salience, from: one?.origin?.provider, "its id there": one?.origin?.id, trust: one?.origin?.trust,
    }),
    el("h2", {}, "Provenance"), drawn,
    el("h2", {}, "Versions"), past,
    el("h2", {}, "Proof"),
    facts({
      id: el("span", { class: "mono" }, shown.record.id), place: `${shown.place + 1} of ${shown.proof.size}`,
      root: el("span", { class: "mono" }, shown.proof.root), "signed at": when(shown.proof.at),
      by: el("span", { class: "mono" }, shown.proof.key), epoch: shown.proof.epoch,
    }),
    notes(shown.notes),
    el("details", {}, el("summary", {}, "The record, as it was sealed"), json(shown.record)),
  ];
}
