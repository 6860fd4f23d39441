// Layout of a graph: links pull, neighbors push, a few steps in each frame.
//
// Nodes push only nodes in the cells around them, so that the cost of a step is linear in the nodes;
// a crowded cell is sampled.

const SPACE = 30, CELL = 2 * SPACE, CROWD = 12, STEPS = 120, BUDGET = 7;

export function layout(size, links) {
  const x = new Float64Array(size), y = new Float64Array(size);
  const dx = new Float64Array(size), dy = new Float64Array(size);
  const near = Array.from({ length: size }, () => []);
  for (const { source, target } of links) {
    near[source].push(target);
    near[target].push(source);
  }
  placed(near, x, y);
  const most = links.length ? STEPS : Math.min(STEPS, 60);
  const result = { x, y, steps: 0, pairs: 0, step: () => {
    const end = performance.now() + BUDGET;
    do {
      if (result.steps >= most) return false;
      once(1 - result.steps / most);
      result.steps += 1;
    } while (performance.now() < end);
    return result.steps < most;
  } };

  function once(heat) {
    const cells = new Map();
    for (let at = 0; at < size; at += 1) {
      dx[at] = -x[at] * 0.001;
      dy[at] = -y[at] * 0.001;
      const name = Math.floor(x[at] / CELL) * 100003 + Math.floor(y[at] / CELL);
      const cell = cells.get(name);
      if (cell) cell.push(at);
      else cells.set(name, [at]);
    }
    let pairs = 0;
    for (let at = 0; at < size; at += 1) {
      const name = Math.floor(x[at] / CELL) * 100003 + Math.floor(y[at] / CELL);
      for (const beside of [-100004, -100003, -100002, -1, 0, 1, 100002, 100003, 100004]) {
        const cell = cells.get(name + beside);
        if (!cell) continue;
        const stride = Math.max(1, Math.floor(cell.length / CROWD));
        for (let container = (at + result.steps) % stride; container < cell.length; container += stride) {
          const other = cell[container];
          if (other === at) continue;
          pairs += 1;
          let [a, b] = [x[at] - x[other], y[at] - y[other]];
          if (a === 0 && b === 0) [a, b] = [(at % 7) - 3.5, (other % 5) - 2.5];
          const far = a * a + b * b;
          if (far > CELL * CELL) continue;
          const push = (SPACE * SPACE * stride * 0.35) / Math.max(far, 25);
          dx[at] += a * push;
          dy[at] += b * push;
        }
      }
    }
    result.pairs = pairs;
    for (const { source, target } of links) {
      const [a, b] = [x[target] - x[source], y[target] - y[source]], far = Math.hypot(a, b) || 1;
      const pull = ((far - SPACE) / far) * 0.2 / Math.sqrt(Math.min(near[source].length, near[target].length));
      dx[source] += a * pull; dy[source] += b * pull;
      dx[target] -= a * pull; dy[target] -= b * pull;
    }
    const longest = 2 + 10 * heat;
    for (let at = 0; at < size; at += 1) {
      const long = Math.hypot(dx[at], dy[at]);
      const by = (long > longest ? longest / long : 1) * (0.2 + 0.8 * heat);
      x[at] += dx[at] * by;
      y[at] += dy[at] * by;
    }
  }

  return result;
}

// Each group of linked nodes starts as rings around its most linked node, every node in the sector of
// its parent; groups are placed on a spiral, the largest in the middle.
function placed(near, x, y) {
  const seen = new Uint8Array(near.length), groups = [];
  const order = near.map((_, at) => at).sort((item, other) => near[other].length - near[item].length);
  for (const start of order) {
    if (!seen[start]) groups.push(rings(start, near, seen, x, y));
  }
  groups.sort((item, other) => other.nodes.length - item.nodes.length);
  let area = 0;
  groups.forEach(({ nodes, radius }, container) => {
    const far = container ? Math.sqrt(area) + radius : 0, turn = container * 2.399963;
    area += (radius + SPACE * 0.4) ** 2;
    for (const at of nodes) {
      x[at] += far * Math.cos(turn);
      y[at] += far * Math.sin(turn);
    }
  });
}

function rings(start, near, seen, x, y) {
  const nodes = [start], from = new Map(), below = new Map(), depth = new Map([[start, 0]]), wide = [1];
  seen[start] = 1;
  for (let container = 0; container < nodes.length; container += 1) {
    for (const other of near[nodes[container]]) {
      if (seen[other]) continue;
      seen[other] = 1;
      nodes.push(other);
      from.set(other, nodes[container]);
      const deep = depth.get(nodes[container]) + 1;
      depth.set(other, deep);
      wide[deep] = (wide[deep] ?? 0) + 1;
    }
  }
  for (let container = nodes.length - 1; container > 0; container -= 1) {
    const at = nodes[container], above = from.get(at);
    below.set(above, (below.get(above) ?? 0) + (below.get(at) || 1));
  }
  const radii = [0];
  for (let deep = 1; deep < wide.length; deep += 1) radii[deep] = Math.max(radii[deep - 1] + SPACE, (wide[deep] * SPACE * 0.3) / Math.PI);
  const first = new Map([[start, 0]]), share = new Map([[start, 2 * Math.PI]]);
  for (const at of nodes) {
    const above = from.get(at), radius = radii[depth.get(at)];
    if (above !== undefined) {
      share.set(at, (share.get(above) * (below.get(at) || 1)) / below.get(above));
      first.set(at, first.get(above));
      first.set(above, first.get(above) + share.get(at));
    }
    const turn = first.get(at) + share.get(at) / 2;
    x[at] = radius * Math.cos(turn);
    y[at] = radius * Math.sin(turn);
  }
  return { nodes, radius: radii.at(-1) + SPACE * 0.3 };
}
