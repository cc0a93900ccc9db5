// Finds the boxes of what stands at a place of the user's source: {op, line, scopes, made_of}.
//
// An op of a device is one of the program, or the compiler made it: of ops that made_of names, or
// of others that nobody knows any more. So a place is of the boxes of its own op; else of those
// that it was made of; else of the scope, the loop or the call that it lies in. Ops of one kind
// that one line makes in one scope can't be told apart: the time that is measured of them is
// divided equally among them.
export class Places {
  constructor(model) {
    this.model = model;
    this.boxes = null; // By key, a set; made when it is first asked.
  }

  // The first box that a place is of; undefined: there is none.
  boxOf(place) { return this.first(opKeys(place)); }

  // All of them.
  boxesOf(place) {
    const of = (keys) => [...new Set(keys.flatMap((key) => this.at(key)))];
    return keysByNearness(place).map(of).find((boxes) => boxes.length > 0) ?? [];
  }

  // Whether it is the box of an op of the place, and not of what that lies in.
  isOwn(box, place) {
    const [own, made] = keysByNearness(place);
    return keysOf(box).some((key) => own.includes(key) || made.includes(key));
  }

  // The first box of the first key that has one.
  first(keys) { return keys.flatMap((key) => this.at(key).slice(0, 1))[0]; }

  at(key) {
    if (this.boxes === null) {
      this.boxes = new Map();
      for (const box of this.model.boxes) {
        for (const own of keysOf(box)) this.add(own, box);
        if (box.kind === 'op') this.add(aroundKey(box.data), box.owner);
        if (box.kind === 'node' && box.data.kind === 'call') this.add(kCall, box);
      }
    }
    return [...this.boxes.get(key) ?? []];
  }

  add(key, box) {
    if (!this.boxes.has(key)) this.boxes.set(key, new Set());
    this.boxes.get(key).add(box);
  }
}

// Under which a box is found.
export function keysOf(box) {
  if (box.kind === 'node') return [nodeKey(box.data.name)];
  if (box.kind === 'op') return ownKeys(box.data);
  const scopes = scopesOf(box);
  return scopes === undefined ? [] : [scopeKey(scopes)];
}

// The nearest first.
export function opKeys(place) { return keysByNearness(place).flat(); }

const kCall = 'call';

export function nodeKey(name) { return `node ${name}`; }

function keysByNearness(place) {
  const made = (place.made_of ?? []).flatMap(ownKeys);
  const scope = place.scopes.length > 0 ? [scopeKey(place.scopes)] : [];
  return [ownKeys(place), made, scope, [aroundKey(place)], [kCall]];
}

function ownKeys({ op, line, scopes }) {
  return line === '' ? [] : [`op ${op} ${JSON.stringify([line, scopes])}`];
}

// Whose function has ops of that line in those scopes.
function aroundKey({ line, scopes }) { return `around ${JSON.stringify([line, scopes])}`; }

function scopeKey(scopes) { return `scope ${JSON.stringify(scopes)}`; }

// Of a group in a function; undefined for all others: states of a program are in groups too.
function scopesOf(box) {
  const names = [];
  let at = box;
  for (; at?.kind === 'scope'; at = at.parent) names.unshift(at.data.scope);
  return names.length > 0 && (at.kind === 'node' || at.kind === 'op') ? names : undefined;
}
