// Memory files of a bank: texts at paths, with all versions.

import { button, bytes, check, el, empty, facts, field, link, mono, number, options, quiet, short, soft, table, to, when } from "./elements.js";
import { confirmDialog, load, notify } from "./feedback.js";
import { filePath, fetched, get, path, put, remove } from "./requests.js";

const MOST = 200000;

export async function files(bank, file, query) {
  const at = (item) => to("b", bank, "files", item);
  const { files: result } = await get(path("files", bank)), paths = result.map((item) => item.path);
  const write = button("New file", () => writing(bank, null, "", at));
  if (!paths.length && !file) return [empty("There are no memory files yet.", "Notes, plans and lists that agents and people write at paths."), el("div", { class: "row" }, write)];
  const shown = el("section", { "aria-label": "The file", class: "said-here" });
  if (file) load(shown, () => read({ bank, file, at, shown }, query.get("version")));
  return el("div", { class: "sides" },
    el("nav", { "aria-label": "Memory files" }, tree(paths, file, at), el("div", { class: "row" }, write)),
    file ? shown : audited(bank));
}

function tree(paths, file, at) {
  const folders = new Map();
  for (const item of paths) {
    const cut = item.lastIndexOf("/");
    const folder = item.slice(0, cut + 1);
    folders.set(folder, [...(folders.get(folder) ?? []), item.slice(cut + 1)]);
  }
  return el("ul", { class: "tree" }, [...folders].map(([folder, names]) => [
    folder ? el("li", { class: "folder" }, folder) : null,
    names.map((name) => el("li", {}, el("a", { href: at(folder + name), "aria-current": folder + name === file ? "true" : null }, name)))]));
}

function audited(bank) {
  const container = el("section", { "aria-label": "Last changes" });
  load(container, async () => {
    const { events } = await get(path("files", bank, "audit"), { last: 20 });
    return [el("h2", {}, "Last changes"), table(["time", "operation", "path", "by", "reason"], [...(events ?? [])].reverse().map((item) =>
      [when(item.ts), item.op, item.path, item.actor, item.reason]))];
  });
  return container;
}

async function read(here, version) {
  const { bank, file, at } = here;
  const { versions } = await get(filePath(bank, "history", file));
  const last = versions.at(-1);
  const gone = last?.op === "delete" && !version;
  const answer = gone ? null : await fetched(filePath(bank, "text", file), { version });
  const text = answer ? await answer.text() : "";
  const tag = answer?.headers.get("ETag");
  const difference = el("div", { "aria-live": "polite" });
  const former = versions.filter((item) => item !== last && item.sha);
  return [
    el("h2", {}, file),
    facts({ version: version ? `${version} (earlier)` : last?.version, changed: last && !version ? when(last.at) : null, by: version ? null : last?.actor,
      size: gone ? null : bytes(new Blob([text]).size), sha256: version || gone ? null : mono(last?.sha ?? "") }),
    gone ? el("p", { class: "warn" }, "This file is deleted. Its versions are listed below.") : el("pre", { class: "file", tabindex: 0 }, text.slice(0, MOST)),
    text.length > MOST ? soft(`The first ${number(MOST)} of ${number(text.length)} characters.`) : null,
    el("div", { class: "row" },
      version ? link(at(file), "Current version") : gone ? null : [
        button("Edit", () => writing(bank, file, text, at, tag)),
        quiet("Delete", () => deleting(here, tag))]),
    el("h2", {}, "Versions"),
    table(["version", "operation", "time", "by", "size", "reason"], [...versions].reverse().map((item) => [
      item === last || !item.sha ? `${item.version}${item === last ? " (current)" : ""}` : link(`${at(file)}?version=${item.version}`, String(item.version)),
      item.op, when(item.at), item.actor, bytes(item.bytes), item.reason])),
    former.length && !gone ? el("div", { class: "row" }, field("Compare the current version with", el("select", { onchange: (event) =>
      event.target.value && load(difference, () => apart(bank, file, event.target.value)) },
    options([["", "…"], ...former.reverse().map((item) => [String(item.version), `version ${item.version}, ${short(item.sha)}`])])))) : null,
    difference,
  ];
}

const SIGNS = { "+": "more", "-": "less", "@": "where" };

async function apart(bank, file, old) {
  const { diff } = await get(filePath(bank, "diff", file), { old });
  if (!diff) return soft("No differences.");
  return el("pre", { class: "diff", tabindex: 0 }, diff.split("\n").slice(2).map((line) =>
    el("span", { class: SIGNS[line[0]] ?? null }, `${line}\n`)));
}

function writing(bank, file, text, at, tag) {
  const where = el("input", { name: "path", required: true, maxlength: 1000, autocomplete: "off", placeholder: "user/notes.md" });
  const words = el("textarea", { name: "text", rows: 14, class: "mono" }, text);
  const keep = el("input", { type: "checkbox", name: "keep", checked: true });
  confirmDialog({
    heading: file ? `Edit ${file}` : "New file", does: "Save",
    body: file ? "It is saved only if it has not changed since you opened it." : null,
    rows: [file ? null : field("Path", where), field("Text", words), check(keep, "Keep the text of all versions")],
    act: async () => {
      const path = file ?? where.value.trim().replace(/^\/+/, "");
      await put(filePath(bank, "text", path), { text: words.value, keep_versions: keep.checked },
        { ...(tag ? { "If-Match": tag } : { "If-None-Match": "*" }), "X-Actor": "web page" });
      notify("Saved.");
      if (location.hash === at(path)) dispatchEvent(new Event("hashchange"));
      else location.hash = at(path);
    },
  });
}

function deleting({ bank, file, at }, tag) {
  confirmDialog({
    heading: "Delete this file", does: "Delete", danger: true, body: `Deletes ${file}. Its versions are kept.`,
    act: async () => {
      await remove(filePath(bank, "text", file), {}, { ...(tag ? { "If-Match": tag } : {}), "X-Actor": "web page" });
      notify("Deleted.");
      location.hash = to("b", bank, "files");
    },
  });
}
