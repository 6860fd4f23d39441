// Differences between two banks, or between a bank and an earlier state of it.

import { chip, clipped, count, el, empty, field, notes, number, options, short, soft, to } from "./elements.js";
import { load } from "./feedback.js";
import { get, path } from "./requests.js";

const SHOWN = 50, EARLIER = "earlier";

export async function comparison(bank, query) {
  const [{ banks }, { imports }, stats] = await Promise.all([
    get(path("banks")), get(path("banks", bank, "imports")), get(path("banks", bank))]);
  const others = banks.filter((item) => item.id !== bank);
  const other = el("select", { name: "other" }, options([[EARLIER, "This bank, earlier"],
    ...others.map((item) => [item.id, clipped(item.name ?? item.id, 60)])], query.get("other") ?? EARLIER));
  const moment = el("select", { name: "moment" }, options([["", "at a log position"],
    ...[...imports].reverse().map((item) => [item.source, `before the import of ${item.format}, ${String(item.at).slice(0, 10)}`])], ""));
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
  const container = el("section", { "aria-live": "polite", id: "differences" });
  const form = el("form", { onsubmit: (event) => {
    event.preventDefault();
    const params = new URLSearchParams({ other: other.value, ...(past.hidden ? {} : { at: position.value }) });
    const where = `${to("b", bank, "compare")}?${params}`;
    if (location.hash === where) show(new URLSearchParams(params));
    else location.hash = where;
  } }, field("Compare with", other), past, el("button", {}, "Compare"));
  const show = (params) => {
    const earlier = (params.get("other") ?? EARLIER) === EARLIER;
    const name = earlier ? `at position ${number(params.get("at"))}` : others.find((item) => item.id === params.get("other"))?.name ?? "the other bank";
    load(container, () => compared(bank, earlier ? { other: bank, other_as_of: params.get("at") } : { other: params.get("other") }, name, earlier));
  };
  if (query.get("other") !== null) show(query);
  return [soft("Memories are the same if all of their members except the ID are equal."), form, container];
}

async function compared(bank, query, name, earlier) {
  const result = await get(path("banks", bank, "diff"), { ...query, limit: SHOWN }).catch((error) => {
    if (error.code === "input.empty") return null;
    throw error;
  });
  if (result === null) return empty("Neither holds a memory.");
  const same = !(result.only_a || result.only_b || result.changed), second = earlier ? bank : query.other;
  return [
    el("div", { class: "figures" }, [["the same", result.same], [earlier ? "added since" : "only here", result.only_a],
      [earlier ? "no longer current" : `only in ${clipped(name, 30)}`, result.only_b], ["changed", result.changed]].map(([label, much]) =>
      el("div", {}, el("b", {}, number(much)), el("span", { class: "soft small" }, label)))),
    notes(result.notes),
    same ? empty("There are no differences.") : null,
    part(earlier ? "Added since" : "Only here", result.first_only_a, result.only_a, "more", bank),
    part(earlier ? "No longer current" : `Only in ${clipped(name, 60)}`, result.first_only_b, result.only_b, "less", second),
    result.changed ? [el("h2", {}, "Changed"), el("ul", { class: "list" }, (result.first_changed ?? []).map((pair) => el("li", {},
      line("less", pair.b, second), line("more", pair.a, bank),
      el("p", { class: "soft small" }, `Different: ${pair.fields.join(", ")}`)))), rest(result.changed, result.first_changed)] : null,
  ];
}

const line = (look, item, bank) => el("div", { class: `change ${look}` },
  el("a", { class: "said", href: to("b", bank, "e", item.id) }, clipped(item.text || `memory ${short(item.id)}`, 300)));

const rest = (all, shown) => (all > (shown ?? []).length ? soft(`and ${count(all - (shown ?? []).length, "more", "more")}`) : null);

const part = (heading, shown, all, look, bank) => (all ? [
  el("h2", {}, heading),
  el("ul", { class: "list" }, (shown ?? []).map((item) => el("li", {}, line(look, item, bank), el("div", { class: "chips" }, chip(item.type))))),
  rest(all, shown),
] : null);
