// Makes elements. Contents of memories get into the page only here, as text.

const READ = new Set(["title", "aria-label", "placeholder", "alt", "label"]);
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : READ.has(name) ? plain(value) : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return node;
}

// Bidirectional and invisible characters are shown as escapes.
export function plain(value) {
  return String(value).replace(
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu,
    (sign) => `\u27e8U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
}

export const el = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

export const link = (to, ...children) => el("a", { href: to }, ...children);

// The address of a part of this page; its names are escaped here.
export const to = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");

export const number = (value) => Number(value).toLocaleString("en");

export const count = (value, noun, many = noun + "s") => `${number(value)} ${value === 1 ? noun : many}`;

export const short = (id) => {
  const text = String(id);
  const digits = text.slice(text.lastIndexOf(":") + 1);
  return digits.length > 14 ? digits.slice(0, 10) + "\u2026" : digits;
};

export const clipped = (text, most) => {
  const cleaned = plain(text ?? "").replace(/\s+/g, " ").trim();
  const signs = Array.from(cleaned);
  return signs.length > most ? signs.slice(0, most - 1).join("") + "\u2026" : cleaned;
};

const moment = (text, style) => {
  const result = new Date(text);
  if (!text || Number.isNaN(result.getTime())) return text ?? "";
  return el("time", { datetime: text, title: text }, result.toLocaleString("en-GB", style));
};

export const when = (text) => moment(text, { dateStyle: "medium", timeStyle: "short" });
export const day = (text) => moment(text, { dateStyle: "full" });

export const bytes = (size) => {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; size >= 1000 && at < units.length - 1; at += 1) size /= 1000;
  return `${at ? size.toFixed(1) : size} ${units[at]}`;
};

// Formats of a year and a month.
export const date = (text) => moment(text, { dateStyle: "medium" });

export const mono = (text) => el("span", { class: "mono" }, text);
export const soft = (...parts) => el("p", { class: "soft" }, ...parts);
export const chip = (label, look) => el("span", { class: `chip ${look ?? ""}`, title: label.length > 30 ? clipped(label, 300) : null }, label);
export const chips = (...labels) =>
  el("div", { class: "chips" }, labels.flat().filter(Boolean).map((item) => (item instanceof Node ? item : chip(item))));

export const button = (label, act, more = {}) => el("button", { type: "button", onclick: act, ...more }, label);
export const quiet = (label, act, more = {}) => button(label, act, { class: "quiet", ...more });

export const field = (label, input, more = {}) => el("label", more, label, input);
export const check = (input, label) => el("label", { class: "check" }, input, label);
export const options = (pairs, chosen) =>
  pairs.map(([value, label]) => el("option", { value, selected: value === chosen }, label));

export const json = (value) => el("pre", { tabindex: 0 }, JSON.stringify(value, null, 2));
export const more = (label, ...what) => el("details", {}, el("summary", {}, label), what);

// The text for an empty list: what it would contain, and how to add something.
export const empty = (title, ...how) => el("div", { class: "empty" }, el("p", {}, el("strong", {}, title)), soft(...how));

// Names and values; unknown values are omitted.
export const facts = (rows) =>
  el("dl", {}, Object.entries(rows).filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

// Marks the sides to which an element can be scrolled.
const cue = (node) => {
  const rest = node.scrollWidth - node.clientWidth - node.scrollLeft;
  node.classList.toggle("more-left", node.scrollLeft > 4);
  node.classList.toggle("more-right", rest > 4);
};
const sizes = new ResizeObserver((result) => result.forEach(({ target }) => cue(target)));
export function cued(node) {
  node.addEventListener("scroll", () => cue(node), { passive: true });
  sizes.observe(node);
  return node;
}

// A text with the matched words marked; a long one starts shortly before the first.
export function highlighted(text, terms, most = 400) {
  const cleaned = plain(text ?? "").replace(/\s+/g, " ").trim();
  const words = [...new Set(terms)].filter(Boolean).map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = words.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join("|")})[\\p{L}\\p{N}]*`, "giu") : null;
  const first = pattern ? cleaned.search(pattern) : -1;
  const start = first > most * 0.7 ? cleaned.indexOf(" ", first - Math.floor(most / 3)) + 1 : 0;
  const shown = `${start ? "\u2026" : ""}${clipped(cleaned.slice(start), most)}`;
  if (!pattern) return [shown];
  const parts = [];
  let at = 0;
  for (const match of shown.matchAll(pattern)) {
    parts.push(shown.slice(at, match.index), el("mark", {}, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, shown.slice(at)];
}

// Text that can be copied; if the browser does not permit it, the text is selected.
export function copyable(text, label, rows, done) {
  const shown = el("textarea", { readonly: true, rows, "aria-label": label, spellcheck: "false", onfocus: () => shown.select() }, text);
  return [shown, el("div", { class: "row" }, quiet("Copy", async () => {
    try {
      await navigator.clipboard.writeText(shown.value);
      done("Copied.");
    } catch {
      shown.focus();
      done("Selected: copy with Ctrl-C.");
    }
  }))];
}

// On a narrow screen each row is a block, with every cell below its header.
export const table = (heads, rows, caption) =>
  cued(el("div", { class: "scroll" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head || el("span", { class: "unseen" }, "More"))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) =>
      el("td", { "data-head": heads[at] }, [cell].flat(Infinity).some((item) => item || item === 0) ? el("div", {}, cell) : null))))))));

export const notes = (lines) =>
  (lines ?? []).length ? el("ul", { class: "warn" }, lines.map((item) => el("li", {}, item))) : null;
