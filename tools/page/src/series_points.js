// Computes a chart: which of many points are drawn, the scales of both axes, and the outlines of
// lines and of stacked areas.

const kPointsDrawn = 900;
const kHeight = 190;
const kLeft = 62;
const kRight = 12;
const kTop = 10;
const kBottom = 24;

// Returns about kPointsDrawn points at most: of equally many points the lowest, the highest and a
// gap, so that no peak is lost. A repeated point is left out.
export function sound(points) {
  const good = points.filter(([x]) => Number.isFinite(x))
    .map(([x, y]) => [x, Number.isFinite(y) ? y : null])
    .filter(([x, y], i, all) => i === 0 || x !== all[i - 1][0] || y !== all[i - 1][1]);
  if (good.length <= kPointsDrawn) return good;
  const parts = kPointsDrawn / 3;
  const kept = [good[0]];
  for (let part = 0; part < parts; ++part) {
    const some = good.slice(Math.floor(part * good.length / parts),
      Math.floor((part + 1) * good.length / parts));
    const known = some.filter(([, y]) => y !== null);
    const lowest = known.reduce((a, b) => (b[1] < a[1] ? b : a), known[0]);
    const highest = known.reduce((a, b) => (b[1] > a[1] ? b : a), known[0]);
    const gap = some.find(([, y]) => y === null);
    const chosen = new Set([lowest, highest, gap]);
    kept.push(...some.filter((point) => chosen.has(point) && point !== good[0]));
  }
  if (kept.at(-1) !== good.at(-1)) kept.push(good.at(-1));
  return kept;
}

// Returns the band between each line and those below it, {x, low, high}, at the points of all
// lines.
export function stackedOf(lines) {
  const all = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))];
  const xs = sound(all.sort((a, b) => a - b).map((x) => [x, 0])).map(([x]) => x);
  const below = xs.map(() => 0);
  return lines.map(({ points }) => {
    let at = -1;
    return xs.map((x, i) => {
      while (at + 1 < points.length && points[at + 1][0] <= x) ++at;
      const inside = at >= 0 && x <= points.at(-1)[0];
      const low = below[i];
      below[i] += inside ? points[at][1] ?? 0 : 0;
      return { x, low, high: below[i] };
    });
  });
}

function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low === high ? [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2]
    : [low, high];
}

// Returns about `count` round numbers in the range, at least `least` apart.
export function ticksOf([low, high], count, least = 0) {
  const rough = Math.max(least, (high - low) / count);
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * ten).find((by) => by >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step); at * step <= high && ticks.length < 20; ++at) {
    ticks.push(at * step);
  }
  return ticks;
}

// Returns the scales of a picture of that width. bands: those of stacked areas, else null. xs and
// ys are the ranges of the numbers shown; the rest is in pixels.
export function scalesOf(width, lines, bands) {
  const all = bands ? [0, ...bands.flat().map(({ high }) => high)]
    : lines.flatMap((line) => line.points.map(([, y]) => y).filter((y) => y !== null));
  const xs = rangeOf(lines.flatMap((line) => line.points.map(([x]) => x)));
  const ys = bands ? [0, Math.max(...all) || 1] : rangeOf(all);
  const [left, right, top, bottom] = [kLeft, width - kRight, kTop, kHeight - kBottom];
  const toX = (x) => left + (x - xs[0]) / (xs[1] - xs[0]) * (right - left);
  const toY = (y) => bottom - (y - ys[0]) / (ys[1] - ys[0]) * (bottom - top);
  return { xs, ys, toX, toY, left, right, top, bottom, height: kHeight };
}

export function linePath(points, toX, toY) {
  let d = '';
  let pen = false;
  for (const [x, y] of points) {
    if (y !== null) d += `${pen ? 'L' : 'M'}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`;
    if (y !== null && !pen) d += 'h0.01';
    pen = y !== null;
  }
  return d;
}

export function bandPath(band, toX, toY) {
  const at = (x, y) => `${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`;
  return `M${[...band.map(({ x, high }) => at(x, high)),
    ...band.toReversed().map(({ x, low }) => at(x, low))].join('L')}Z`;
}
