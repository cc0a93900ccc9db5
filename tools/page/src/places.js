// Finds the box of what stands at a place of the user's source: {op, line, scopes}.
export class Places {
  constructor(model) {
    this.model = model;
    this.boxes = null; // By key; made when it is first asked.
  }

  // The first op of that kind there, or the first op there; undefined: there is none.
  boxOf(place) { return this.first(opKeys(place)); }

  first(keys) {
    if (this.boxes === null) {
      this.boxes = new Map();
      for (const box of this.model.boxes) {
        for (const key of keysOf(box)) if (!this.boxes.has(key)) this.boxes.set(key, box);
      }
    }
    return keys.map((key) => this.boxes.get(key)).find((box) => box);
  }
}

// The most exact first.
export function keysOf(box) {
  if (box.kind === 'node') return [nodeKey(box.data.name)];
  return box.kind === 'op' ? opKeys(box.data) : [];
}

export function opKeys({ op, line, scopes }) {
  const place = JSON.stringify([line, scopes]);
  return line === '' ? [] : [`op ${op} ${place}`, `place ${place}`];
}

export function nodeKey(name) { return `node ${name}`; }
