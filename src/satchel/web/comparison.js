// Differences between two banks, or between a bank and an earlier state of it.

import { chip, clipped, count, el, empty, field, notes, number, options, short, soft, to } from "./elements.js";
import { into } from "./feedback.js";
import { get, path } from "./requests.js";

const SHOWN = 50, EARLIER = "earlier";

export async function comparison(bank, query) {
  const [{ banks }, { imports }, stats] = await Promise.all([
    get(path("banks")), get(path("banks", bank, "imports")), get(path("banks", bank))]);
  const others = banks.filter((one) => one.id !== bank);
  const other = el("select", { name: "other" }, options([[EARLIER, "This bank, earlier"],
    ...others.map((one) => [one.id, clipped(one.name ?? one.id, 60)])], query.get("other") ?? EARLIER));
  const moment = el("select", { name: "moment" }, options([["", "at a log position"],
    ...[...imports].reverse().map((one) => [one.source, `before the import of ${one.format}, ${String(one.at).slice(0, 10)}`])], ""));
  const position = el("input", { name: "position", type: "number", min: 0, max: stats.records, required: true,
    value: query.get("at") ?? Math.max(0, stats.records - 1) });
  const past = el("div", { class: "row" }, field("Moment", moment), field(`Log position (of ${number(stats.records)})`, position));
  const changed = () => { past.hidden = other.value !== EARLIER; position.disabled = past.hidden; };
  other.addEventListener("change", changed);
  moment.addEventListener("change", async () => {
    if (!moment.value) return;
    const { position: before } = await get(path("banks", bank, "entries", moment.value));
    position.value = before;
  });
  changed();
  const place = el("section", { "aria-live": "polite", id: "differences" });
  const form = el("form", { onsubmit: (event) => {
    event.preventDefault();
    const said = new URLSearchParams({ other: other.value, ...(past.hidden ? {} : { at: position.value }) });
    const where = `${to("b", bank, "compare")}?${said}`;
    if (location.hash === where) show(new URLSearchParams(said));
    else location.hash = where;
  } }, field("Compare with", other), past, el("button", {}, "Compare"));
  const show = (said) => {
    const earlier = (said.get("other") ?? EARLIER) === EARLIER;
    const name = earlier ? `at position ${number(said.get("at"))}` : others.find((one) => one.id === said.get("other"))?.name ?? "the other bank";
    into(place, () => compared(bank, earlier ? { other: bank, other_as_of: said.get("at") } : { other: said.get("other") }, name, earlier));
  };
  if (query.get("other") !== null) show(query);
  return [soft("Memories are the same if all of their members except the ID are equal."), form, place];
}

async function compared(bank, query, name, earlier) {
  const found = await get(path("banks", bank, "diff"), { ...query, limit: SHOWN }).catch((error) => {
    if (error.code === "input.empty") return null;
    throw error;
  });
  if (found === null) return empty("Neither holds a memory.");
  const same = !(found.only_a || found.only_b || found.changed), there = earlier ? bank : query.other;
  return [
    el("div", { class: "figures" }, [["the same", found.same], [earlier ? "added since" : "only here", found.only_a],
      [earlier ? "no longer current" : `only in ${clipped(name, 30)}`, found.only_b], ["changed", found.changed]].map(([said, much]) =>
      el("div", {}, el("b", {}, number(much)), el("span", { class: "soft small" }, said)))),
    notes(found.notes),
    same ? empty("There are no differences.") : null,
    part(earlier ? "Added since" : "Only here", found.first_only_a, found.only_a, "more", bank),
    part(earlier ? "No longer current" : `Only in ${clipped(name, 60)}`, found.first_only_b, found.only_b, "less", there),
    found.changed ? [el("h2", {}, "Changed"), el("ul", { class: "list" }, (found.first_changed ?? []).map((pair) => el("li", {},
      line("less", pair.b, there), line("more", pair.a, bank),
      el("p", { class: "soft small" }, `Different: ${pair.fields.join(", ")}`)))), rest(found.changed, found.first_changed)] : null,
  ];
}

const line = (look, one, bank) => el("div", { class: `change ${look}` },
  el("a", { class: "said", href: to("b", bank, "e", one.id) }, clipped(one.text || `memory ${short(one.id)}`, 300)));

const rest = (all, shown) => (all > (shown ?? []).length ? soft(`and ${count(all - (shown ?? []).length, "more", "more")}`) : null);

const part = (said, shown, all, look, bank) => (all ? [
  el("h2", {}, said),
  el("ul", { class: "list" }, (shown ?? []).map((one) => el("li", {}, line(look, one, bank), el("div", { class: "chips" }, chip(one.type))))),
  rest(all, shown),
] : null);
