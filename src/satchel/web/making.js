// Makes elements. Whatever comes from memory gets into the page here, as text and nothing else.

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

// Signs that turn text around, or hide in it, are shown as what they are.
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
  const said = plain(text ?? "").replace(/\s+/g, " ").trim();
  const signs = Array.from(said);
  return signs.length > most ? signs.slice(0, most - 1).join("") + "\u2026" : said;
};

const moment = (text, style) => {
  const found = new Date(text);
  if (!text || Number.isNaN(found.getTime())) return text ?? "";
  return el("time", { datetime: text, title: text }, found.toLocaleString("en-GB", style));
};

export const when = (text) => moment(text, { dateStyle: "medium", timeStyle: "short" });
export const day = (text) => moment(text, { dateStyle: "full" });

export const bytes = (size) => {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; size >= 1000 && at < units.length - 1; at += 1) size /= 1000;
  return `${at ? size.toFixed(1) : size} ${units[at]}`;
};

// A year and a month have the same size everywhere.
export const date = (text) => moment(text, { dateStyle: "medium" });

export const mono = (text) => el("span", { class: "mono" }, text);
export const soft = (...said) => el("p", { class: "soft" }, ...said);
export const chip = (said, look) => el("span", { class: `chip ${look ?? ""}`, title: said.length > 30 ? clipped(said, 300) : null }, said);
export const chips = (...said) =>
  el("div", { class: "chips" }, said.flat().filter(Boolean).map((one) => (one instanceof Node ? one : chip(one))));

export const button = (said, act, more = {}) => el("button", { type: "button", onclick: act, ...more }, said);
export const quiet = (said, act, more = {}) => button(said, act, { class: "quiet", ...more });

export const field = (label, input, more = {}) => el("label", more, label, input);
export const check = (input, label) => el("label", { class: "check" }, input, label);
export const options = (pairs, chosen) =>
  pairs.map(([value, said]) => el("option", { value, selected: value === chosen }, said));

export const json = (value) => el("pre", { tabindex: 0 }, JSON.stringify(value, null, 2));
export const more = (said, ...what) => el("details", {}, el("summary", {}, said), what);

// What there is instead of a list with nothing in it: what it would be, and how to come by it.
export const empty = (said, ...how) => el("div", { class: "empty" }, el("p", {}, el("strong", {}, said)), soft(...how));

// What is known, name by name; what is not known is left out.
export const facts = (rows) =>
  el("dl", {}, Object.entries(rows).filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

// Whatever can be scrolled sideways shows on which side there is more.
const cue = (node) => {
  const rest = node.scrollWidth - node.clientWidth - node.scrollLeft;
  node.classList.toggle("more-left", node.scrollLeft > 4);
  node.classList.toggle("more-right", rest > 4);
};
const sizes = new ResizeObserver((found) => found.forEach(({ target }) => cue(target)));
export function cued(node) {
  node.addEventListener("scroll", () => cue(node), { passive: true });
  sizes.observe(node);
  return node;
}

// A text with the words that a search matched marked; a long one from shortly before the first.
export function highlighted(text, terms, most = 400) {
  const said = plain(text ?? "").replace(/\s+/g, " ").trim();
  const words = [...new Set(terms)].filter(Boolean).map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = words.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join("|")})[\\p{L}\\p{N}]*`, "giu") : null;
  const first = pattern ? said.search(pattern) : -1;
  const start = first > most * 0.7 ? said.indexOf(" ", first - Math.floor(most / 3)) + 1 : 0;
  const shown = `${start ? "\u2026" : ""}${clipped(said.slice(start), most)}`;
  if (!pattern) return [shown];
  const parts = [];
  let at = 0;
  for (const match of shown.matchAll(pattern)) {
    parts.push(shown.slice(at, match.index), el("mark", {}, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, shown.slice(at)];
}

// Text that can be copied; where a browser lets no page do it, the text is selected.
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

// On a narrow screen each row stands alone, every cell under its head.
export const table = (heads, rows, caption) =>
  cued(el("div", { class: "scroll" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head || el("span", { class: "unseen" }, "More"))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) =>
      el("td", { "data-head": heads[at] }, [cell].flat(Infinity).some((one) => one || one === 0) ? el("div", {}, cell) : null))))))));

export const notes = (said) =>
  (said ?? []).length ? el("ul", { class: "warn" }, said.map((one) => el("li", {}, one))) : null;
