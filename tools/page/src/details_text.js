// The texts that the details show of a box and of its links.
import { shown } from './model.js';
import { bytesText } from './units.js';

const kLongest = 2000; // Letters of one value.
const kInTree = new Set(['nodes', 'parameters', 'functions', 'bodies', 'slices', 'body', 'id']);

// Returns [name, text] of each field of its JSON that the tree does not show, and of its layout.
export function detailsOf(box, overlay) {
  const rows = [];
  for (const [name, value] of Object.entries(box.data)) {
    if (!kInTree.has(name) && !isEmpty(value)) rows.push([name, textOf(name, value)]);
  }
  if (box.children.length > 0) rows.push(['boxes in it', String(box.children.length)]);
  if (box.sameAs) rows.push(['drawn in', pathOf(box.sameAs)]);
  if (overlay) rows.push([overlay.title, overlay.textOf(box)]);
  if (box.laid) rows.push(['lies', box.laid.sharding.join(', ') || 'whole']);
  return rows;
}

// Describes a value, and its conversions on the way.
export function carriedText(bytes, moves) {
  const kinds = [...new Set(moves.flatMap((move) => move.collectives))];
  return [bytesText(bytes), ...kinds].join(' ');
}

function isEmpty(value) {
  return value === null || value === ''
    || (typeof value === 'object' && Object.keys(value).length === 0);
}

// Prints results and types line by line, and anything else as JSON.
function textOf(name, value) {
  if (name === 'results' && value.every((result) => result.type)) {
    return cut(value.map((result) => {
      const sharding = result.sharding ? ` [${result.sharding.join(', ')}]` : '';
      return `%${result.id} ${result.type}${sharding}`;
    }).join('\n'));
  }
  if (name === 'types') return cut(value.join('\n'));
  return cut(typeof value === 'string' ? value : JSON.stringify(value));
}

export function cut(text) {
  const lines = text.slice(0, kLongest).split('\n').map((line) => {
    const all = [];
    for (let at = 0; at < line.length; at += 200) all.push(shown(line.slice(at, at + 200)));
    return all.join('');
  }).join('\n');
  return text.length > kLongest ? `${lines}\u2026` : lines;
}

export function pathOf(box) {
  const names = [];
  for (let at = box; at; at = at.parent) names.unshift(at.label);
  return names.join(' / ');
}
