// Conversations: their messages up to any point, forks, checkpoints and comparison.

import { branches } from "./charts.js";
import { button, check, clipped, count, el, empty, facts, field, json, link, more, options, quiet, short, soft, to, when } from "./elements.js";
import { confirmDialog, load, notify } from "./feedback.js";
import { get, patch, path, post } from "./requests.js";

const PREVIEW = 3, MOST = 10000;

const title = (item) => item.name ?? `untitled, ${short(item.id)}`;

// A fork is below its source; later forks come first, so that no lines cross.
function ordered(result) {
  const known = new Set(result.map((item) => item.id)), of = new Map();
  for (const item of result) {
    const from = known.has(item.origin?.session) ? item.origin.session : null;
    of.set(from, [...(of.get(from) ?? []), item]);
  }
  const rows = [], open = (of.get(null) ?? []).map((item) => [item, 0, item.id]).reverse();
  while (open.length) {
    const [item, depth, root] = open.pop();
    rows.push({ ...item, depth, root });
    const forks = (of.get(item.id) ?? []).sort((a, b) => a.origin.number - b.origin.number);
    open.push(...forks.map((fork) => [fork, depth + 1, root]));
  }
  return rows;
}

export async function sessions(bank, chosen, query, again) {
  const put = query.get("archived") === "1";
  const { sessions: all } = await get(path("banks", bank, "sessions"), { include_archived: put ? "true" : "", limit: MOST });
  const away = check(el("input", { type: "checkbox", checked: put, onchange: () => {
    location.hash = to("b", bank, "sessions") + (put ? "" : "?archived=1");
  } }), "Include archived");
  if (!all.length) {
    return [empty("There are no conversations yet.", "They come from imports, agents and ", el("code", {}, "satchel session"), "."), away];
  }
  const result = ordered(all);
  const item = result.find((session) => session.id === chosen) ?? result[0];
  const address = (session, at) => {
    const params = new URLSearchParams({ ...(put ? { archived: "1" } : {}), ...(at ? { at } : {}) });
    return to("b", bank, "sessions", session) + (params.size ? `?${params}` : "");
  };
  const shown = el("section", { "aria-label": "Messages", class: "said-here" });
  load(shown, () => conversation({ bank, session: item, at: query.get("at"), all: result, address, again, shown }));
  const names = new Map(result.map((session) => [session.id, title(session)]));
  const picture = el("div");
  load(picture, async () => {
    const tree = result.filter((session) => session.root === item.root);
    const { checkpoints } = await get(path("banks", bank, "sessions", item.id, "checkpoints"));
    return tree.length > 1 || checkpoints.length ? branches(tree, item.id, checkpoints, address) : null;
  });
  return [
    picture,
    el("div", { class: "sides" },
      el("nav", { "aria-label": "Conversations" }, el("ul", { class: "tree" }, result.map((session) =>
        el("li", { class: `d${Math.min(6, session.depth)}${session.depth ? " fork" : ""}` },
          el("a", { href: address(session.id), "aria-current": session.id === item.id ? "true" : null },
            el("strong", { class: "clip" }, title(session)),
            el("div", { class: "soft small" }, count(session.messages ?? 0, "message"),
              session.checkpoints ? `, ${count(session.checkpoints, "checkpoint")}` : "", session.archived ? ", archived" : ""),
            session.origin ? el("div", { class: "small" }, `↳ from ${clipped(names.get(session.origin.session) ?? short(session.origin.session), 40)} at message ${session.origin.number}`) : null,
            session.last_at ? el("div", { class: "soft small" }, when(session.last_at)) : null)))), away),
      shown),
  ];
}

async function conversation(here, last = 50) {
  const { bank, session, at, all, address, again, shown } = here;
  const result = await get(path("banks", bank, "sessions", session.id), { at, last });
  const points = (result.checkpoints ?? []).filter((point) => point.number <= result.number);
  const marks = (number) => points.filter((point) => point.number === number).map((point) =>
    el("li", { class: "point" }, link(address(session.id, point.id), `◆ ${clipped(point.name ?? point.why, 80)}`),
      quiet("Fork here", () => fork(here, point.id, point.name ?? `message ${point.number}`),
        { "aria-label": `Fork at the checkpoint ${clipped(point.name ?? point.why, 40)}` })));
  const state = result.state ?? {}, compared = el("div", { "aria-live": "polite" });
  const others = all.filter((item) => item.id !== session.id);
  const earlier = result.left_out
    ? quiet(`Show ${count(result.left_out, "earlier message")}`, () => load(shown, () => conversation(here, Math.min(1000, last * 4)))) : null;
  return [
    el("h2", {}, title(session)),
    soft(at ? ["Up to message ", result.number, " · ", link(address(session.id), "show all")] : count(result.number, "message"),
      session.agent ? ` · ${session.agent}` : "", session.user ? ` · with ${session.user}` : ""),
    el("div", { class: "row" },
      button(at ? "Fork from this point" : "Fork from the end", () => fork(here, at, at ? `message ${result.number}` : "the end")),
      quiet("Add checkpoint", () => keep(here, at ? String(result.number) : null)),
      quiet("Rename", () => rename(here)),
      quiet(session.archived ? "Unarchive" : "Archive", () => archive(here))),
    others.length ? el("div", { class: "row" }, field("Compare with", el("select", { onchange: (event) =>
      event.target.value && load(compared, () => apart(bank, session, event.target.value)) },
    options([["", "…"], ...others.map((item) => [item.id, clipped(title(item), 40)])])))) : null,
    compared,
    earlier,
    el("ol", { class: "turns", start: (result.left_out ?? 0) + 1 }, marks(0), (result.messages ?? []).map((message) => [
      turn(message, session, quiet("Fork here", () => fork(here, String(message.number), `message ${message.number}`),
        { "aria-label": `Fork after message ${message.number}` })),
      marks(message.number)])),
    result.number ? null : soft("No messages yet."),
    state.thread_summary ? [el("h3", {}, "Summary"), el("div", { class: "text" }, state.thread_summary)] : null,
    (state.notes ?? []).length ? [el("h3", {}, "Notes"), el("ul", {}, state.notes.map((note) => el("li", {}, `${note.category}: ${note.content}`)))] : null,
    state.working_state ? more("Working state", json(state.working_state)) : null,
    at ? el("p", { class: "soft small" }, `${count(result.memories_later ?? 0, "memory", "memories")} of the bank were added later.`) : null,
  ];
}

const body = (message) => (typeof message.content === "string" ? message.content
  : message.content === undefined ? "" : JSON.stringify(message.content, null, 2));

const turn = (message, session, act) =>
  el("li", { class: `turn ${message.role === "user" ? "asks" : ""} ${message.session && message.session !== session.id ? "past" : ""}` },
    el("div", { class: "row" },
      el("span", { class: "soft small" }, el("strong", {}, message.name ?? message.role ?? "message"), ` · ${message.number} · `, message.created_at ? when(message.created_at) : "",
        message.session && message.session !== session.id ? " · before the fork" : ""),
      act),
    el("div", { class: "body" }, body(message)),
    message.more ? more("More fields", json(message.more)) : null);

const bankName = () => el("input", { name: "name", maxlength: 500, autocomplete: "off" });

// First, the last messages before the fork.
function fork({ bank, session, address }, at, where) {
  const name = bankName(), hide = el("input", { type: "checkbox", name: "as_of" }), preview = el("div", { class: "preview" });
  confirmDialog({
    heading: "Fork", does: "Fork",
    body: `Creates a new conversation that continues from ${where} of ${title(session)}. The original is not changed.`,
    rows: [preview, field("Name", name), check(hide, "Hide later memories from it")],
    act: async () => {
      const made = await post(path("banks", bank, "sessions", session.id, "fork"),
        { at: at ?? null, name: name.value.trim() || null, memories: hide.checked ? "as-of" : "all" });
      notify(`Created a fork with ${count(made.messages, "message")}.`);
      location.hash = address(made.id);
    },
  });
  name.focus();
  load(preview, async () => {
    const result = await get(path("banks", bank, "sessions", session.id), { at, last: PREVIEW });
    const left = result.number - (result.messages ?? []).length;
    return [
      soft(count(result.number, "message"), result.number ? ", ending with:" : ""),
      left ? soft("…") : null,
      (result.messages ?? []).map((message) => el("p", { class: "small" },
        el("strong", {}, message.name ?? message.role ?? "message"), ": ", clipped(body(message), 140))),
    ];
  });
}

function keep({ bank, session, address }, at) {
  const name = bankName();
  confirmDialog({
    heading: "Add checkpoint", does: "Add", body: "Marks a point to return to.", rows: [field("Name", name)],
    act: async () => {
      const made = await post(path("banks", bank, "sessions", session.id, "checkpoints"), { at, name: name.value.trim() || null });
      notify("Checkpoint added.");
      location.hash = address(session.id, made.id);
    },
  });
}

function rename({ bank, session, again }) {
  const name = el("input", { name: "name", required: true, maxlength: 500, autocomplete: "off", value: session.name ?? "" });
  confirmDialog({
    heading: "Rename", does: "Save", rows: [field("Name", name)],
    act: async () => {
      await patch(path("banks", bank, "sessions", session.id), { name: name.value.trim() });
      again();
    },
  });
}

async function archive({ bank, session, again }, archived = !session.archived) {
  try {
    await post(path("banks", bank, "sessions", session.id, "archive"), { restore: !archived });
    notify(archived ? "Conversation archived." : "Conversation unarchived.",
      archived ? () => archive({ bank, session, again }, false) : null);
  } catch (error) {
    notify(error.message);
  }
  again();
}

async function apart(bank, session, other) {
  const result = await get(path("banks", bank, "sessions", session.id, "diff"), { other });
  const side = (item) => el("div", {}, el("h3", {}, title(item.session)),
    soft(item.messages ? `${count(item.messages, "message")} of its own` : "no messages of its own"),
    el("ol", { class: "turns" }, (item.first ?? []).map((message) => turn(message, item.session, null))));
  return el("div", { class: "compared" },
    el("h2", {}, "Compared"),
    facts({ "in both": count(result.common, "message"), state: result.same_state === false ? "differs" : "the same" }),
    el("div", { class: "halves" }, side(result.one), side(result.other)));
}
