// Finds the boxes of a place in the user's source: {op, line, scopes, made_of}.
//
// An op of a device is one of the program, or the compiler made it: from ops that made_of names, or
// from unknown ones. The boxes of a place are those of its own op; otherwise those that it was made
// of; otherwise the scope, the loop or the call that it lies in. Ops of one kind that one line
// makes in one scope can't be told apart: their measured time is divided equally among them.
export class Places {
  constructor(model) {
    this.model = model;
    this.boxes = null; // A set of boxes for each key; created at the first request.
  }

  // Returns the first box of a place; undefined: there is none.
  boxOf(place) { return this.first(opKeys(place)); }

  // Returns all boxes of a place.
  boxesOf(place) {
    const of = (keys) => [...new Set(keys.flatMap((key) => this.at(key)))];
    return keysByNearness(place).map(of).find((boxes) => boxes.length > 0) ?? [];
  }

  // Whether it is the box of an op of the place, and not of a scope, loop or call around the op.
  isOwn(box, place) {
    const [own, made] = keysByNearness(place);
    return keysOf(box).some((key) => own.includes(key) || made.includes(key));
  }

  // Returns the first box of the first key that has a box.
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

// Returns the keys under which a box is found.
export function keysOf(box) {
  if (box.kind === 'node') return [nodeKey(box.data.name)];
  if (box.kind === 'op') return ownKeys(box.data);
  const scopes = scopesOf(box);
  return scopes === undefined ? [] : [scopeKey(scopes)];
}

// Returns the keys of a place, the nearest first.
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

// Key of boxes whose function has ops of that line in those scopes.
function aroundKey({ line, scopes }) { return `around ${JSON.stringify([line, scopes])}`; }

function scopeKey(scopes) { return `scope ${JSON.stringify(scopes)}`; }

// Returns the scopes of a group in a function; undefined for all others, such as the groups of a
// program's states.
function scopesOf(box) {
  const names = [];
  let at = box;
  for (; at?.kind === 'scope'; at = at.parent) names.unshift(at.data.scope);
  return names.length > 0 && (at.kind === 'node' || at.kind === 'op') ? names : undefined;
}
