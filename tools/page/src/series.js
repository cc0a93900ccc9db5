// Lines over steps or over time, as one SVG with axes, and a legend below it.
//
// drawSeries(room, {title, unit, xName, lines: [{name, points: [[x, y], ...]}], stacked, colours})
// appends to the element and returns the figure, whose svg.chart has `scales`: {toX, toY, top,
// bottom}. x rises along a line; y of null or no number leaves a gap. xName is what x counts
// ('step', the default), or 'time': milliseconds since 1970. Stacked areas hold a line's last value
// until its next point, and are empty before its first and behind its last. `colours`, where given,
// says by line which colour it has, so that a name keeps its own from chart to chart.
import { shown } from './model.js';

export const kColours = 8; // Of series.css.
const kLines = 24;
const kPointsDrawn = 900;
const kHeight = 190;
const kLeft = 62;
const kRight = 12;
const kTop = 10;
const kBottom = 24;

export function drawSeries(room, chart) {
  const { title, lines, stacked = false } = chart;
  const figure = madeOf('figure', 'series');
  const caption = madeOf('figcaption', '', chart.unit ? `${title} (${chart.unit})` : title);
  figure.append(caption);
  room.append(figure);
  const kept = lines.slice(0, kLines).map((line, i) => ({
    name: shown(line.name), colour: (chart.colours?.[i] ?? i) % kColours,
    dash: Math.floor((chart.colours?.[i] ?? i) / kColours) % 3, points: sound(line.points),
  }));
  if (kept.every((line) => line.points.every(([, y]) => y === null))) {
    figure.append(madeOf('p', '', 'nothing has been said yet'));
    return figure;
  }
  const bands = stacked ? stackedOf(kept) : null;
  figure.append(pictureOf(figure.clientWidth || 480, chart, kept, bands));
  figure.append(legendOf(kept, lines.length));
  return figure;
}

export function madeOf(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function svgOf(name, attributes, text) {
  const made = document.createElementNS(document.querySelector('svg').namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// About kPointsDrawn of them at most: of equally many points the lowest, the highest and a gap, so
// that no peak is lost. What is said again is left out.
function sound(points) {
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

// By line, the bands between it and those below it: {x, low, high}, at the points of all.
function stackedOf(lines) {
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

// Round numbers within the range, about so many, and at least so far from each other.
function ticksOf([low, high], count, least = 0) {
  const rough = Math.max(least, (high - low) / count);
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * ten).find((by) => by >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step); at * step <= high && ticks.length < 20; ++at) {
    ticks.push(at * step);
  }
  return ticks;
}

export function numberText(value) {
  if (!Number.isFinite(value)) return '-';
  const size = Math.abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-3)) {
    for (const [unit, by] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
      if (size >= by && size < 1e12) return `${Number((value / by).toPrecision(3))}${unit}`;
    }
    return value.toExponential(2);
  }
  return String(Number(value.toPrecision(4)));
}

function timeText(ms) {
  return new Date(ms).toTimeString().slice(0, 8);
}

function pictureOf(width, chart, lines, bands) {
  const ys = bands ? [0, ...bands.flat().map(({ high }) => high)]
    : lines.flatMap((line) => line.points.map(([, y]) => y).filter((y) => y !== null));
  const xs = rangeOf(lines.flatMap((line) => line.points.map(([x]) => x)));
  const range = bands ? [0, Math.max(...ys) || 1] : rangeOf(ys);
  const toX = (x) => kLeft + (x - xs[0]) / (xs[1] - xs[0]) * (width - kLeft - kRight);
  const toY = (y) => kHeight - kBottom
    - (y - range[0]) / (range[1] - range[0]) * (kHeight - kTop - kBottom);
  const svg = svgOf('svg', { class: 'chart', width, height: kHeight, role: 'img' });
  svg.scales = { toX, toY, top: kTop, bottom: kHeight - kBottom };
  svg.setAttribute('aria-label', `${chart.title}: ${lines.map((line) => (
    `${line.name} ${numberText(line.points.at(-1)?.[1])}`)).join(', ')}`);
  for (const tick of ticksOf(range, 4)) {
    svg.append(svgOf('path', { class: 'grid', d: `M${kLeft} ${toY(tick)}H${width - kRight}` }));
    svg.append(svgOf('text', { x: kLeft - 6, y: toY(tick) + 4, 'text-anchor': 'end' },
      numberText(tick)));
  }
  const isTime = chart.xName === 'time';
  const count = Math.max(2, Math.floor((width - kLeft) / 90));
  for (const tick of ticksOf(xs, count, isTime ? 1000 : 1)) {
    const isLast = toX(tick) > width - kRight - 30;
    svg.append(svgOf('text', { x: toX(tick), y: kHeight - 6,
      'text-anchor': isLast ? 'end' : 'middle' }, isTime ? timeText(tick) : numberText(tick)));
  }
  lines.forEach((line, i) => {
    const few = line.points.length === 1 ? ' few' : ''; // It is seen too.
    const kind = `line colour${line.colour} dash${line.dash}${few}`;
    const d = bands ? bandPath(bands[i], toX, toY) : linePath(line.points, toX, toY);
    svg.append(svgOf('path', { class: bands ? `${kind} area` : kind, d }));
  });
  return svg;
}

function linePath(points, toX, toY) {
  let d = '';
  let pen = false;
  for (const [x, y] of points) {
    if (y !== null) d += `${pen ? 'L' : 'M'}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`;
    if (y !== null && !pen) d += 'h0.01';
    pen = y !== null;
  }
  return d;
}

function bandPath(band, toX, toY) {
  const at = (x, y) => `${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`;
  return `M${[...band.map(({ x, high }) => at(x, high)),
    ...band.toReversed().map(({ x, low }) => at(x, low))].join('L')}Z`;
}

function legendOf(lines, count) {
  const list = madeOf('ul', 'legend');
  for (const line of lines) {
    const item = madeOf('li', '');
    const sample = svgOf('svg', { width: 22, height: 10, 'aria-hidden': 'true' });
    sample.append(svgOf('path', { class: `line colour${line.colour} dash${line.dash}`,
      d: 'M1 5H21' }));
    const name = madeOf('span', '', line.name);
    name.title = line.name;
    item.append(sample, name, madeOf('b', '', numberText(line.points.at(-1)?.[1])));
    list.append(item);
  }
  if (count > lines.length) list.append(madeOf('li', '', `and ${count - lines.length} more`));
  return list;
}
