// Draws lines over steps or over time, as one SVG with axes, and a legend below it.
//
// drawSeries(room, {title, unit, xName, lines: [{name, points: [[x, y], ...]}], stacked, colours})
// appends to the element and returns the figure, whose svg.chart has `scales`: {toX, toY, top,
// bottom}. x rises along a line; a y that is null or no number leaves a gap. xName names what x
// counts ('step', the default), or is 'time': milliseconds since 1970. Stacked areas hold a line's
// last value until its next point, and are empty before its first and behind its last. `colours`,
// if given, has the colour of each line, so that a name keeps its colour from chart to chart.
import { shown } from './model.js';
import { bandPath, linePath, scalesOf, sound, stackedOf, ticksOf } from './series_points.js';
import { numberText, timeText } from './units.js';

export const kColours = 8; // Number of colours in series.css.
const kLines = 24;

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

function pictureOf(width, chart, lines, bands) {
  const { xs, ys, toX, toY, left, right, top, bottom, height } = scalesOf(width, lines, bands);
  const svg = svgOf('svg', { class: 'chart', width, height, role: 'img' });
  svg.scales = { toX, toY, top, bottom };
  svg.setAttribute('aria-label', `${chart.title}: ${lines.map((line) => (
    `${line.name} ${numberText(line.points.at(-1)?.[1])}`)).join(', ')}`);
  for (const tick of ticksOf(ys, 4)) {
    svg.append(svgOf('path', { class: 'grid', d: `M${left} ${toY(tick)}H${right}` }));
    svg.append(svgOf('text', { x: left - 6, y: toY(tick) + 4, 'text-anchor': 'end' },
      numberText(tick)));
  }
  const isTime = chart.xName === 'time';
  const count = Math.max(2, Math.floor((width - left) / 90));
  for (const tick of ticksOf(xs, count, isTime ? 1000 : 1)) {
    const isLast = toX(tick) > right - 30;
    svg.append(svgOf('text', { x: toX(tick), y: height - 6,
      'text-anchor': isLast ? 'end' : 'middle' }, isTime ? timeText(tick) : numberText(tick)));
  }
  lines.forEach((line, i) => {
    const few = line.points.length === 1 ? ' few' : ''; // A single point must be visible too.
    const kind = `line colour${line.colour} dash${line.dash}${few}`;
    const d = bands ? bandPath(bands[i], toX, toY) : linePath(line.points, toX, toY);
    svg.append(svgOf('path', { class: bands ? `${kind} area` : kind, d }));
  });
  return svg;
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
