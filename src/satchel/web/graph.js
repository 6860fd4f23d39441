// All memories of a bank and their links, drawn on a canvas that can be zoomed, panned and filtered.

import { clipped, count, el, empty, field, link, notes, number, options, quiet, soft, to } from "./elements.js";
import { layout } from "./layout.js";
import { gist } from "./memory.js";
import { get, path } from "./requests.js";

const MOST = 5000, LISTED = 50, LABELS = 60, NEAR = 14, LEAST = 0.02, LARGEST = 8;
const COLORS = ["--type-1", "--type-2", "--type-3", "--type-4", "--type-5", "--type-6"];
const KEYS = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };

const counted = (values) => {
  const result = new Map();
  for (const value of values) result.set(value, (result.get(value) ?? 0) + 1);
  return [...result].sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
};

export async function graph(bank, query) {
  const all = query.get("all") === "1";
  const result = await get(path("banks", bank, "graph"), { limit: MOST, all: all ? "true" : "" });
  if (!result.nodes.length) return empty("There are no memories yet.", "Their links are drawn here.");
  const types = counted(result.nodes.map((node) => node.type)).map(([name]) => name);
  const tags = counted(result.nodes.flatMap((node) => node.tags ?? []));
  const type = el("select", { name: "type" }, options([["", "all"], ...counted(result.nodes.map((node) => node.type))
    .map(([name, much]) => [name, `${name} (${number(much)})`])], ""));
  const tag = el("select", { name: "tag" }, options([["", "all"], ...tags.slice(0, 500)
    .map(([name, much], at) => [String(at), `#${clipped(name, 40)} (${number(much)})`])], ""));
  const linked = el("input", { type: "checkbox", name: "linked" });
  const history = el("input", { type: "checkbox", name: "history", checked: all, onchange: () => {
    location.hash = to("b", bank, "graph") + (all ? "" : "?all=1");
  } });
  const canvas = el("canvas", { class: "graph", tabindex: 0, role: "img" });
  const status = el("p", { class: "soft small", "aria-live": "polite" }), list = el("div");
  const hint = el("div", { class: "hint", hidden: true });
  const drawing = new Drawing(canvas, hint, result, types, (node) => { location.hash = to("b", bank, "e", node.id); });
  const degrees = new Uint32Array(result.nodes.length);
  for (const { source, target } of result.links) {
    degrees[source] += 1;
    degrees[target] += 1;
  }
  const show = () => {
    const wanted = tags[tag.value]?.[0];
    const shown = result.nodes.map((node, at) => (!type.value || node.type === type.value)
      && (wanted === undefined || (node.tags ?? []).includes(wanted)) && (!linked.checked || degrees[at] > 0));
    const { nodes, links } = drawing.show(shown);
    const summary = `${count(nodes, "memory", "memories")}, ${count(links, "link")}`;
    canvas.setAttribute("aria-label", `Graph of ${summary}. Arrow keys pan, plus and minus zoom, 0 shows everything.`);
    status.textContent = `${summary} shown${result.complete ? "" : `; the bank has more: these are the newest ${number(MOST)}`}.`;
    const visible = result.nodes.map((node, at) => [node, degrees[at]]).filter((_, at) => shown[at])
      .sort(([, a], [, b]) => b - a).slice(0, LISTED);
    list.replaceChildren(el("h2", {}, nodes > LISTED ? `The ${LISTED} with most links` : "As a list"),
      el("ul", { class: "list" }, visible.map(([node, much]) => el("li", {},
        el("a", { class: "said", href: to("b", bank, "e", node.id) }, clipped(gist(node), 160)),
        el("span", { class: "soft small" }, `${node.type}, ${count(much, "link")}`)))));
  };
  for (const item of [type, tag, linked]) item.addEventListener("change", show);
  show();
  return [
    notes(result.notes),
    el("div", { class: "row" }, field("Type", type), field("Tag", tag),
      el("label", { class: "check" }, linked, "Linked only"), el("label", { class: "check" }, history, "Include history"),
      el("div", { class: "row end" },
        quiet("+", () => drawing.zoom(1.4), { "aria-label": "Zoom in" }), quiet("\u2212", () => drawing.zoom(1 / 1.4), { "aria-label": "Zoom out" }),
        quiet("Fit", () => drawing.fit()))),
    el("div", { class: "graph-place" }, canvas, hint),
    el("p", { class: "soft small legend" }, types.slice(0, COLORS.length).map((name, at) =>
      el("span", {}, el("span", { class: `dot t${at + 1}` }), ` ${name}`))),
    status,
    soft("Scroll or pinch to zoom, drag to pan, click a memory to open it."),
    list,
  ];
}

class Drawing {
  constructor(canvas, hint, result, types, open) {
    Object.assign(this, { canvas, hint, graph: result, types, open, scale: 1, x: 0, y: 0, pointers: new Map(), over: -1, moved: 0, frames: 0 });
    this.layout = layout(result.nodes.length, result.links);
    this.fitted = true; // until somebody zooms or pans, all of it stays in view
    this.degrees = new Uint32Array(result.nodes.length);
    for (const { source, target } of result.links) {
      this.degrees[source] += 1;
      this.degrees[target] += 1;
    }
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.sized()).observe(canvas);
    const themes = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => { this.colors = null; this.ask(); };
    themes.addEventListener("change", redraw);
    const looks = new MutationObserver(redraw);
    looks.observe(document.documentElement, { attributes: true, attributeFilter: ["data-look"] });
    this.stop = () => { themes.removeEventListener("change", redraw); looks.disconnect(); };
  }

  show(shown) {
    this.shown = shown;
    this.links = this.graph.links.filter(({ source, target }) => shown[source] && shown[target]);
    this.fitted = true;
    this.ask();
    return { nodes: shown.reduce((sum, item) => sum + item, 0), links: this.links.length };
  }

  sized() {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width || !height) return;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this, { ratio, width, height });
    this.ask();
  }

  // One frame: a few steps of the layout while it moves, then the drawing.
  ask() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      if (!this.canvas.isConnected) {
        if (this.drawn) this.stop();
        else if (!this.gone) { this.gone = true; this.ask(); }
        return;
      }
      const moves = this.layout.step();
      if (this.fitted) this.inView();
      this.draw();
      if (moves) this.ask();
      Object.assign(this.canvas.dataset, { frames: ++this.frames, steps: this.layout.steps, pairs: this.layout.pairs, state: moves ? "moving" : "settled" });
    });
  }

  inView() {
    if (!this.width) return;
    const { x, y } = this.layout;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    this.shown.forEach((is, at) => {
      if (!is) return;
      left = Math.min(left, x[at]); right = Math.max(right, x[at]);
      top = Math.min(top, y[at]); bottom = Math.max(bottom, y[at]);
    });
    if (left > right) return;
    const margin = 40;
    this.scale = Math.max(LEAST, Math.min(2, (this.width - 2 * margin) / (right - left || 1), (this.height - 2 * margin) / (bottom - top || 1)));
    this.x = this.width / 2 - this.scale * (left + right) / 2;
    this.y = this.height / 2 - this.scale * (top + bottom) / 2;
  }

  fit() {
    this.fitted = true;
    this.ask();
  }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    const scale = Math.max(LEAST, Math.min(LARGEST, this.scale * by)), change = scale / this.scale;
    this.x = x - (x - this.x) * change;
    this.y = y - (y - this.y) * change;
    this.scale = scale;
    this.fitted = false;
    this.canvas.dataset.scale = scale.toFixed(3);
    this.ask();
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.fitted = false;
    this.canvas.dataset.pan = `${Math.round(this.x)},${Math.round(this.y)}`;
    this.ask();
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.moved = 0;
  }

  move(event) {
    const was = this.pointers.get(event.pointerId), is = [event.offsetX, event.offsetY];
    if (!was) {
      this.point(this.at(...is));
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
    this.pointers.set(event.pointerId, is);
    this.moved += Math.hypot(is[0] - was[0], is[1] - was[1]);
    if (others.length) {
      const [, [x, y]] = others[0];
      const [before, after] = [Math.hypot(was[0] - x, was[1] - y), Math.hypot(is[0] - x, is[1] - y)];
      if (before > 1) this.zoom(after / before, (is[0] + x) / 2, (is[1] + y) / 2);
    }
    this.pan((is[0] - was[0]) / (others.length + 1), (is[1] - was[1]) / (others.length + 1));
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    const at = this.at(event.offsetX, event.offsetY);
    if (event.type === "pointerup" && this.moved < 5 && at >= 0) this.open(this.graph.nodes[at]);
  }

  key(event) {
    const { key } = event;
    if (Object.hasOwn(KEYS, key)) this.pan(...KEYS[key]);
    else if (["+", "="].includes(key)) this.zoom(1.4);
    else if (key === "-") this.zoom(1 / 1.4);
    else if (key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  // The nearest visible node, or -1.
  at(x, y) {
    const { x: xs, y: ys } = this.layout;
    let [best, least] = [-1, NEAR ** 2];
    for (let at = 0; at < xs.length; at += 1) {
      if (!this.shown[at]) continue;
      const far = (xs[at] * this.scale + this.x - x) ** 2 + (ys[at] * this.scale + this.y - y) ** 2;
      if (far < least) [best, least] = [at, far];
    }
    return best;
  }

  point(at) {
    if (at === this.over) return;
    this.over = at;
    this.hint.hidden = at < 0;
    this.canvas.classList.toggle("on-node", at >= 0);
    if (at >= 0) {
      const node = this.graph.nodes[at];
      this.hint.replaceChildren(el("strong", {}, clipped(gist(node), 160)),
        el("div", { class: "soft small" }, [node.type, ...(node.tags ?? []).slice(0, 5).map((tag) => `#${clipped(tag, 30)}`),
          node.state && node.state !== "current" ? node.state : ""].filter(Boolean).join(" ")));
    }
    this.ask();
  }

  palette() {
    const style = getComputedStyle(this.canvas);
    const color = (name) => {
      this.canvas.style.color = `var(${name})`;
      const result = style.color;
      this.canvas.style.color = "";
      return result;
    };
    return { edge: color("--soft"), ink: color("--ink"), accent: color("--accent"), sheet: color("--sheet"), types: COLORS.map(color) };
  }

  draw() {
    const pen = this.canvas.getContext("2d"), { x: xs, y: ys } = this.layout;
    if (!this.width) return;
    this.drawn = true;
    this.colors ??= this.palette();
    const { scale, colors } = this;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const left = (at) => xs[at] * scale + this.x, top = (at) => ys[at] * scale + this.y;
    const inside = (at) => { const [a, b] = [left(at), top(at)]; return a > -60 && b > -60 && a < this.width + 60 && b < this.height + 60; };
    pen.strokeStyle = colors.edge;
    pen.globalAlpha = 0.35;
    pen.lineWidth = Math.max(0.4, Math.min(1.4, scale));
    pen.beginPath();
    for (const { source, target } of this.links) {
      if (!inside(source) && !inside(target)) continue;
      pen.moveTo(left(source), top(source));
      pen.lineTo(left(target), top(target));
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const size = Math.max(1.2, Math.min(7, 4.5 * Math.sqrt(scale))), bonus = Math.min(1, scale);
    const seen = [];
    // One path for each color, which draws faster.
    this.types.forEach((type, container) => {
      pen.fillStyle = colors.types[container % COLORS.length];
      pen.beginPath();
      this.graph.nodes.forEach((node, at) => {
        if (node.type !== type || !this.shown[at] || !inside(at)) return;
        seen.push(at);
        const round = size + bonus * Math.min(4, Math.sqrt(this.degrees[at]));
        pen.moveTo(left(at) + round, top(at));
        pen.arc(left(at), top(at), round, 0, 7);
      });
      pen.fill();
    });
    if (this.over >= 0) {
      pen.strokeStyle = colors.accent;
      pen.lineWidth = 3;
      pen.beginPath();
      pen.arc(left(this.over), top(this.over), size + 6, 0, 7);
      pen.stroke();
    }
    if (seen.length > LABELS) return;
    pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    pen.textBaseline = "middle";
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeStyle = colors.sheet;
    pen.fillStyle = colors.ink;
    for (const at of seen) {
      const node = this.graph.nodes[at], text = clipped(gist(node), 28);
      const fits = left(at) + size + 8 + pen.measureText(text).width < this.width;
      pen.textAlign = fits ? "left" : "right";
      const x = left(at) + (fits ? size + 6 : -size - 6);
      pen.strokeText(text, x, top(at));
      pen.fillText(text, x, top(at));
    }
  }
}
