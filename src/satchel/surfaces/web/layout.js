// Where the nodes of a graph are: links pull, neighbours push, a few steps in each frame.
//
// Nodes push only those in the cells around them, so a step costs in proportion to the nodes, however
// many there are; a cell that is crowded is looked at in part.

const SPACE = 30, CELL = 2 * SPACE, CROWD = 12, STEPS = 240, BUDGET = 7;

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
  const found = { x, y, steps: 0, pairs: 0, step: () => {
    const end = performance.now() + BUDGET;
    do {
      if (found.steps >= most) return false;
      once(1 - found.steps / most);
      found.steps += 1;
    } while (performance.now() < end);
    return found.steps < most;
  } };

  function once(heat) {
    const cells = new Map();
    for (let at = 0; at < size; at += 1) {
      dx[at] = -x[at] * 0.002;
      dy[at] = -y[at] * 0.002;
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
        for (let place = (at + found.steps) % stride; place < cell.length; place += stride) {
          const other = cell[place];
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
    found.pairs = pairs;
    for (const { source, target } of links) {
      const [a, b] = [x[target] - x[source], y[target] - y[source]], far = Math.hypot(a, b) || 1;
      const pull = ((far - SPACE) / far) * 0.5 / Math.sqrt(Math.min(near[source].length, near[target].length));
      dx[source] += a * pull; dy[source] += b * pull;
      dx[target] -= a * pull; dy[target] -= b * pull;
    }
    const longest = 4 + 40 * heat;
    for (let at = 0; at < size; at += 1) {
      const long = Math.hypot(dx[at], dy[at]);
      const by = (long > longest ? longest / long : 1) * (0.2 + 0.8 * heat);
      x[at] += dx[at] * by;
      y[at] += dy[at] * by;
    }
  }

  return found;
}

// What is linked begins side by side, on a spiral: largest groups in the middle.
function placed(near, x, y) {
  const seen = new Uint8Array(near.length), groups = [];
  for (let start = 0; start < near.length; start += 1) {
    if (seen[start]) continue;
    const group = [start];
    seen[start] = 1;
    for (let place = 0; place < group.length; place += 1) {
      for (const other of near[group[place]]) {
        if (!seen[other]) {
          seen[other] = 1;
          group.push(other);
        }
      }
    }
    groups.push(group);
  }
  groups.sort((one, other) => other.length - one.length).flat().forEach((at, place) => {
    const far = SPACE * 0.6 * Math.sqrt(place), turn = place * 2.399963;
    x[at] = far * Math.cos(turn);
    y[at] = far * Math.sin(turn);
  });
}
