// Documents that the tool wrote, their models, and helpers for all tests of the page's modules.
import { readFileSync } from 'node:fs';

import { layOut } from '../../tools/page/src/layout.js';
import { Model } from '../../tools/page/src/model.js';

// Debian's node is older than its Chromium, and lacks two methods that the page calls.
Array.prototype.toReversed ??= function toReversed() { return [...this].reverse(); };
Array.prototype.toSorted ??= function toSorted(compare) { return [...this].sort(compare); };

const letter = 7.2; // Pixels, of the page's font.

// Reads a document of tests/golden/page. Its field `said` has other things that the tool prints of
// the program: `busy_ns` of the simulation, and the texts `device` and `memory`.
export function documentOf(name) {
  return JSON.parse(readFileSync(new URL(`../golden/page/${name}.json`, import.meta.url)));
}

export function modelOf({ program, layout, plan }) {
  return new Model(program, layout, plan);
}

// Opens all boxes, and puts each at its place.
export function laidOut(model) {
  model.setAll(true);
  layOut(model.root, (text) => text.length * letter);
  return model;
}

// The first box with that label, in a scope of that name where one is given.
export function boxOf(model, label, scope) {
  return model.boxes.find((box) => box.label === label
    && (scope === undefined || box.data.scopes?.includes(scope)));
}

// A program as the tool's JSON says it (docs/graph_json.md): scopes "layers.N" of additions, whose
// ops all read the last value of the scope before.
export function additions(layers, ops) {
  const nodes = [];
  for (let id = 0; id < layers * ops; ++id) {
    const layer = Math.floor(id / ops);
    nodes.push({ id, op: 'add', inputs: [layer * ops, layer * ops], scopes: [`layers.${layer}`],
      line: `model.cc:${id % ops}`, results: [{ id: id + 1, type: 'f32[8]', bytes: 32 }] });
  }
  const last = { id: layers * ops, name: 'y' };
  return {
    name: 'additions', bodies: [],
    slices: [{ name: 'main', mesh: [{ name: 'data', size: 2 }] }],
    functions: [{ name: 'main', nodes, results: [last],
      parameters: [{ id: 0, name: 'x', type: 'f32[8]', bytes: 32 }] }],
    nodes: [
      { kind: 'input', name: 'x', slice: 0, inputs: [], updates: [], types: ['f32[8]'],
        bytes: [32] },
      { kind: 'call', name: 'main', slice: 0, function: 0, inputs: [{ node: 0, result: 0 }],
        updates: [], types: ['f32[8]'], bytes: [32] },
      { kind: 'output', name: 'y', slice: 0, inputs: [{ node: 1, result: 0 }], updates: [],
        types: ['f32[8]'], bytes: [32] },
    ],
  };
}
