// The spans of a timeline, a row for each device, host or program, and the texts about them.
import { shown } from './model.js';
import { secondsText } from './units.js';

const kRowsShown = 200;

// Returns {rows, end}: rows with their spans and the part of the time in which they are busy, and
// the end of the last span.
export function rowsOf(timeline) {
  const rows = timeline.rows.slice(0, kRowsShown).map((row) => ({ ...row, spans: [], busy: 0 }));
  for (const [row, begin, length, name, run, place] of timeline.spans) {
    const spans = rows[row]?.spans;
    const end = begin + length;
    // reach: the latest end of this span and those before it.
    const reach = Math.max(end, spans?.at(-1)?.reach ?? 0);
    spans?.push({ row, begin, end, reach, name, run, place });
  }
  const end = timeline.spans.reduce((last, [, begin, length]) => Math.max(last, begin + length), 1);
  for (const row of rows) row.busy = busyOf(row.spans) / end;
  return { rows, end };
}

export function rowText(row) {
  const isBusy = row.kind === 'device' || row.kind === 'collectives';
  return shown(isBusy ? `${row.name}: ${(100 * row.busy).toFixed(1)} % busy` : row.name);
}

// Tells how long the whole timeline is, and how much is left out of it.
export function wholeText(timeline, { rows, end }) {
  const { left_out: leftOut } = timeline;
  const rowsLeft = timeline.rows.length - rows.length;
  const cut = (leftOut > 0 ? `; ${leftOut} earlier spans are left out` : '')
    + (rowsLeft > 0 ? `; ${rowsLeft} more rows are not shown` : '')
    + Object.entries(timeline.silent ?? {}).map(
      ([host, why]) => `; nothing of ${host}: ${why}`).join('');
  return shown(`${secondsText(end / 1e6)}${cut}`);
}

export function spanText(timeline, rows, span) {
  const place = timeline.places[span.place];
  const where = place ? ` ${[place.line, ...place.scopes.toReversed()].join(' in ')}` : '';
  return shown(`${span.name} on ${rows[span.row].name}: `
    + `${secondsText((span.end - span.begin) / 1e6)} from ${secondsText(span.begin / 1e6)}, `
    + `run ${span.run}${where}`);
}

// Returns the innermost span of a row at that time; null: none.
export function spanAt({ spans }, time) {
  let found = null;
  for (let at = firstEndingAfter(spans, time); at < spans.length; ++at) {
    if (spans[at].begin > time) break;
    if (spans[at].end >= time) found = spans[at]; // Later ones lie in earlier ones.
  }
  return found;
}

// Spans are in the order of their beginnings. A span that lies in another one comes behind it.
export function firstEndingAfter(spans, time) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].reach < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Returns the time in which at least one of the row's ops runs.
function busyOf(spans) {
  let [busy, end] = [0, 0];
  for (const span of spans) {
    if (span.place === null && span.name === 'run') continue; // It waits too.
    busy += Math.max(0, span.end - Math.max(end, span.begin));
    end = Math.max(end, span.end);
  }
  return busy;
}
