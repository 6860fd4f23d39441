// Conversations: which there are, what was said up to a point, and going on from there in a fork.

import { get, path, post } from "./asking.js";
import { branches } from "./drawing.js";
import { clipped, count, el, facts, into, json, link, problem, short, to, told, when } from "./making.js";

const title = (one) => one.name ?? `without a name, ${short(one.id)}`;

export async function sessions(bank, chosen, query) {
  const all = path("banks", bank, "sessions");
  const { sessions: found } = await get(all, { archived: query.get("archived") === "1" ? "true" : "" });
  if (!found.length) {
    return el("p", { class: "soft" }, "No conversation is kept here yet: an agent's adapter, an import or ",
      el("code", {}, "satchel sessions"), " brings them.");
  }
  const one = found.find((session) => session.id === chosen) ?? found[0];
  const address = (session, at) => to("b", bank, "sessions", session) + (at ? `?at=${encodeURIComponent(at)}` : "");
  const shown = el("section", { "aria-label": "What was said" });
  into(shown, () => conversation(bank, one, query.get("at"), found, address));
  const names = new Map(found.map((session) => [session.id, title(session)]));
  const picture = el("div");
  into(picture, async () => {
    const tree = treeOf(found, one);
    const { checkpoints } = await get(path("banks", bank, "sessions", one.id, "checkpoints"));
    return tree.length > 1 || checkpoints.length ? branches(tree, one.id, checkpoints, address) : null;
  });
  return [
    picture,
    el("div", { class: "sides" },
      el("nav", { "aria-label": "Conversations" }, el("ul", { class: "tree" }, found.map((session) =>
        el("li", { class: `d${Math.min(6, session.depth ?? 0)}${session.origin ? " fork" : ""}` },
          el("a", { href: address(session.id), "aria-current": session.id === one.id ? "true" : null },
            el("strong", {}, title(session)),
            el("div", { class: "soft small" }, count(session.messages ?? 0, "message"),
              session.checkpoints ? `, ${count(session.checkpoints, "checkpoint")}` : "",
              session.archived ? ", put away" : ""),
            session.origin ? el("div", { class: "small" }, `↳ from ${names.get(session.origin.session) ?? short(session.origin.session)} at message ${session.origin.number}`) : null,
            session.last_at ? el("div", { class: "soft small" }, when(session.last_at)) : null))))),
      shown),
  ];
}

// The sessions of the same tree: they stand together, its root first.
function treeOf(found, one) {
  let first = found.indexOf(one);
  while (first > 0 && found[first].depth) first -= 1;
  let last = first + 1;
  while (last < found.length && found[last].depth) last += 1;
  return found.slice(first, last);
}

async function conversation(bank, session, at, all, address, last = 50) {
  const found = await get(path("banks", bank, "sessions", session.id), { at, last });
  const points = (found.checkpoints ?? []).filter((point) => point.number <= found.number);
  const marks = (number) => points.filter((point) => point.number === number).map((point) =>
    el("li", { class: "point" }, link(address(session.id, point.id), `◆ ${point.name ?? point.why}`),
      el("button", { type: "button", class: "quiet", onclick: () => fork(bank, session, point.id, point.name ?? `message ${point.number}`, address) }, "Fork here")));
  const state = found.state ?? {};
  const more = found.left_out
    ? el("button", { type: "button", class: "quiet", onclick: (event) =>
      into(event.target.closest("section"), () => conversation(bank, session, at, all, address, Math.min(1000, last * 4))) },
    `${count(found.left_out, "earlier message")}`)
    : null;
  const compared = el("div");
  const others = all.filter((one) => one.id !== session.id);
  return [
    el("h2", {}, title(session)),
    el("p", { class: "soft" }, at ? ["As it was at message ", found.number, " · ", link(address(session.id), "to its end")] : count(found.number, "message"),
      session.agent ? ` · ${session.agent}` : "", session.user ? ` · with ${session.user}` : ""),
    el("div", { class: "row" },
      el("button", { type: "button", onclick: () => fork(bank, session, at, at ? `message ${found.number}` : "its end", address) }, at ? "Fork from this point" : "Fork from its end"),
      el("button", { type: "button", class: "quiet", onclick: () => keep(bank, session, at ? String(found.number) : null, address) }, "Keep a checkpoint"),
      others.length ? el("label", {}, "Compare with", el("select", { onchange: (event) =>
        event.target.value && into(compared, () => apart(bank, session, event.target.value)) },
      el("option", { value: "" }, "…"), others.map((one) => el("option", { value: one.id }, clipped(title(one), 40))))) : null),
    compared,
    more,
    el("ol", { class: "turns", start: (found.left_out ?? 0) + 1 }, marks(0), (found.messages ?? []).map((message) => [
      turn(message, session, el("button", { type: "button", class: "quiet", "aria-label": `Fork after message ${message.number}`,
        onclick: () => fork(bank, session, String(message.number), `message ${message.number}`, address) }, "Fork here")),
      marks(message.number)])),
    state.thread_summary ? [el("h3", {}, "What it was about"), el("div", { class: "text" }, state.thread_summary)] : null,
    (state.notes ?? []).length ? [el("h3", {}, "To keep in mind"), el("ul", {}, state.notes.map((note) => el("li", {}, `${note.category}: ${note.content}`)))] : null,
    state.working_state ? el("details", {}, el("summary", {}, "Working state"), json(state.working_state)) : null,
    at ? el("p", { class: "soft small" }, `${count(found.memories_later ?? 0, "memory", "memories")} of the bank came later.`) : null,
  ];
}

const turn = (message, session, button) =>
  el("li", { class: message.session && message.session !== session.id ? "turn past" : "turn" },
    el("div", { class: "row" },
      el("span", { class: "soft small" }, `${message.number} · ${message.name ?? message.role ?? "said"}`, " ", message.created_at ? when(message.created_at) : ""),
      button),
    el("div", { class: "body" }, typeof message.content === "string" ? message.content
      : message.content === undefined ? "" : JSON.stringify(message.content, null, 2)),
    message.more ? el("details", {}, el("summary", {}, "more"), json(message.more)) : null);

function asks(heading, said, rows, button, act) {
  const failed = el("div");
  const box = el("dialog", { onclose: () => box.remove() }, el("form", { onsubmit: async (event) => {
    event.preventDefault();
    failed.replaceChildren();
    try {
      await act();
      box.close();
    } catch (error) {
      failed.replaceChildren(problem(error));
    }
  } }, el("h2", {}, heading), el("p", { class: "soft" }, said), rows, failed,
  el("div", { class: "row" }, el("button", {}, button), el("button", { type: "button", class: "quiet", onclick: () => box.close() }, "Leave it"))));
  document.body.append(box);
  box.showModal();
}

function fork(bank, session, at, where, address) {
  const name = el("input", { name: "name", maxlength: 500, autocomplete: "off" });
  const hide = el("input", { type: "checkbox", name: "as_of" });
  asks("Fork", `A new conversation goes on from ${where} of ${title(session)}, which stays as it is.`,
    [el("label", {}, "Name", name), el("label", { class: "check" }, hide, "Hide memories that came later from it")],
    "Fork", async () => {
      const made = await post(path("banks", bank, "sessions", session.id, "fork"),
        { at: at ?? null, name: name.value.trim() || null, as_of: hide.checked });
      told(`Forked, with ${count(made.messages, "message")}.`);
      location.hash = address(made.id);
    });
}

function keep(bank, session, at, address) {
  const name = el("input", { name: "name", maxlength: 500, autocomplete: "off" });
  asks("Keep a checkpoint", "A point to return to.", el("label", {}, "Name", name), "Keep it", async () => {
    const made = await post(path("banks", bank, "sessions", session.id, "checkpoints"), { at, name: name.value.trim() || null });
    told("The checkpoint is kept.");
    location.hash = address(session.id, made.id);
  });
}

async function apart(bank, session, other) {
  const found = await get(path("banks", bank, "sessions", session.id, "diff"), { other });
  const side = (one) => el("div", {}, el("h3", {}, title(one.session)),
    el("p", { class: "soft" }, one.messages ? `${count(one.messages, "message")} of its own` : "nothing of its own"),
    el("ol", { class: "turns" }, (one.first ?? []).map((message) => turn(message, one.session, null))));
  return [
    el("h2", {}, "Compared"),
    facts({ "in both": count(found.common, "message"), state: found.same_state === false ? "differs" : "the same" }),
    side(found.one), side(found.other),
  ];
}
