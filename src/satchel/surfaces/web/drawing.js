// Drawings: where a memory comes from, and how conversations branch.

import { clipped, count, el, svg } from "./making.js";

const drawn = (width, height, said, ...parts) =>
  el("div", { class: "drawing" }, svg("svg", {
    class: "drawn", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": said,
  }, parts));

const WIDE = 200, HIGH = 46, GAP = 70, ROW = 62, MOST = 12;

// What a memory was drawn from is on its left, what was drawn from it on its right.
export function provenance(near, address) {
  const at = new Map([[near.start.id, { thing: near.start, column: 0 }]]);
  for (const thing of near.things) {
    const out = thing.by.target === thing.id;
    const from = at.get(out ? thing.by.source : thing.by.target);
    if (from && !at.has(thing.id)) at.set(thing.id, { thing, column: from.column + (out ? -1 : 1) });
  }
  const columns = new Map();
  for (const one of at.values()) {
    const here = columns.get(one.column) ?? [];
    if (here.length === MOST) { one.out = true; continue; }
    columns.set(one.column, [...here, one]);
  }
  const least = Math.min(...columns.keys());
  const rows = Math.max(...[...columns.values()].map((all) => all.length));
  for (const [column, all] of columns) {
    all.forEach((one, number) => {
      one.x = 12 + (column - least) * (WIDE + GAP);
      one.y = 12 + (number + (rows - all.length) / 2) * ROW;
    });
  }
  const edges = near.things.map((thing) => {
    const [a, b] = [at.get(thing.by.target), at.get(thing.by.source)];
    if (!a || !b || a.out || b.out) return null;
    const [x1, y1, x2, y2] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
    const middle = (x1 + x2) / 2;
    return svg("path", { class: "edge", d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
  });
  const nodes = [...at.values()].filter((one) => !one.out).map(({ thing, x, y }) =>
    svg("a", { href: address(thing.id), class: thing.id === near.start.id ? "self" : null },
      svg("title", {}, thing.text ?? thing.id),
      svg("rect", { class: "node", x, y, width: WIDE, height: HIGH, rx: 8 }),
      svg("text", { x: x + 10, y: y + 19 }, clipped(thing.text ?? thing.id, 28)),
      svg("text", { class: "soft", x: x + 10, y: y + 36 }, clipped([thing.type, thing.state === "current" ? "" : thing.state].filter(Boolean).join(", "), 28))));
  return drawn(columns.size * (WIDE + GAP) - GAP + 24, rows * ROW + 10,
    `Drawn from ${count(near.things.length, "linked thing")}`, edges, nodes);
}

const LANE = 34, LEFT = 16, LABEL = 200, LEAST = 140, MOST_LONG = 620;

// Each session is a lane, as long as it has messages; a fork leaves its origin's lane where it began.
export function branches(sessions, chosen, points, address) {
  const lanes = new Map(sessions.map((one, number) => [one.id, { one, y: 22 + number * LANE }]));
  const room = document.getElementById("main").clientWidth - LABEL - 60;
  const long = Math.max(LEAST, Math.min(MOST_LONG, room));
  const most = Math.max(1, ...sessions.map((one) => one.messages ?? 0));
  const x = (number) => LEFT + (Math.min(number, most) / most) * long;
  const parts = [...lanes.values()].map(({ one, y }) => {
    const from = one.origin && lanes.get(one.origin.session);
    const start = from ? x(one.origin.number) : LEFT;
    const end = Math.max(x(one.messages ?? 0), start + 8);
    const mine = points.filter((point) => point.session === one.id);
    return svg("g", { class: one.id === chosen ? "here" : null },
      from ? svg("path", { class: "edge", d: `M${start} ${from.y}C${start} ${y} ${start} ${y} ${start + 8} ${y}` }) : null,
      svg("path", { class: "lane", d: `M${from ? start + 8 : start} ${y}H${end}` }),
      from ? svg("circle", { class: "origin", cx: start, cy: from.y, r: 5 },
        svg("title", {}, `${one.name ?? "a fork"} begins at message ${one.origin.number}`)) : null,
      svg("a", { href: address(one.id) },
        svg("circle", { class: "mark", cx: end, cy: y, r: 6 }),
        svg("text", { x: end + 12, y: y + 4 }, clipped(one.name ?? "without a name", 26))),
      mine.map((point) => svg("a", { href: address(one.id, point.id) },
        svg("title", {}, `${point.name ?? point.why}: message ${point.number}`),
        svg("rect", { class: "mark", x: x(point.number) - 5, y: y - 5, width: 10, height: 10, transform: `rotate(45 ${x(point.number)} ${y})` }))));
  });
  return drawn(LEFT + long + LABEL, sessions.length * LANE + 14, "How these conversations branch", parts);
}
