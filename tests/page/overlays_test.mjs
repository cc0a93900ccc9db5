// The colours of overlays, against the rates, costs and spans of the document.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { criticalBoxes } from '../../tools/page/src/critical_path.js';
import { Model } from '../../tools/page/src/model.js';
import { makers } from '../../tools/page/src/overlay_colours.js';
import { Places } from '../../tools/page/src/places.js';
import { secondsText } from '../../tools/page/src/units.js';
import { additions, boxOf, documentOf, modelOf } from './support.mjs';

function overlaysOf(document) {
  const model = modelOf(document);
  return { model, overlays: makers(model, document.timeline, new Places(model)) };
}

test('a document that says all has all overlays, and one of a program alone has three', () => {
  const document = documentOf('two_ways');
  assert.deepEqual([...overlaysOf(document).overlays.keys()],
    ['Slice', 'Device', 'Scope', 'Time in the timeline', 'Memory', 'Time', 'Critical path']);
  assert.deepEqual([...overlaysOf({ program: document.program }).overlays.keys()],
    ['Slice', 'Scope', 'Memory']);
});

test('the critical path is the heavier way', () => {
  const { model, overlays } = overlaysOf(documentOf('two_ways'));
  const { critical, classOf, textOf } = overlays.get('Critical path')();
  const ofScopes = {};
  for (const box of model.boxes) {
    if (box.kind === 'scope') ofScopes[box.label] = critical.has(box);
  }
  assert.deepEqual(ofScopes,
    { 'heavy.0': true, 'heavy.1': true, 'heavy.2': true, 'heavy.3': true, light: false });
  assert.equal(classOf(boxOf(model, 'mul')), 'heat4');
  assert.equal(classOf(boxOf(model, 'add')), 'heat0');
  assert.equal(textOf(boxOf(model, 'add')), 'no');
});

test('a call waits for the call from which its parameters come', () => {
  const program = additions(1, 2);
  const [, call, output] = program.nodes;
  program.functions.push(program.functions[0]);
  program.nodes.splice(2, 1, { ...call, name: 'next', function: 1, inputs: output.inputs },
    { ...output, inputs: [{ node: 2, result: 0 }] });
  const model = new Model(program);
  const critical = criticalBoxes(model, new Map(model.boxes.map((box) => [box, 1])));
  const labels = [...critical].filter((box) => box.kind === 'node').map((box) => box.label);
  assert.deepEqual(labels.sort(),
    ['call main', 'call next', 'input x', 'output y']);
});

test('the time of a box is that of its op by the rates and costs of the document', () => {
  const document = documentOf('two_ways');
  const { rates } = document.layout;
  const seconds = rates.launch_ns / 1e9 + Math.max(2 * 256 ** 3 / 2 / rates.flops_per_s,
    3 * 256 * 256 * 4 / 2 / rates.memory_bytes_per_s);
  const { model, overlays } = overlaysOf(document);
  const dot = boxOf(model, 'dot', 'heavy.1');
  assert.equal(overlays.get('Critical path')().textOf(dot), `yes, ${secondsText(seconds)}`);
  const { weights, textOf } = overlays.get('Time')();
  assert.ok(Math.abs(weights.get(dot) - seconds) < 1e-12);
  assert.equal(textOf(dot), secondsText(seconds));
});

test('a group weighs what is in it', () => {
  const { model, overlays } = overlaysOf(documentOf('two_ways'));
  const { weights } = overlays.get('Memory')();
  const dot = boxOf(model, 'dot', 'heavy.1');
  assert.equal(weights.get(dot), 256 * 256 * 4);
  const groups = model.boxes.filter(({ kind }) => ['scope', 'slice', 'program'].includes(kind));
  for (const box of groups) {
    assert.equal(weights.get(box), box.children.reduce((sum, at) => sum + weights.get(at), 0));
  }
});

test('boxes have the time of their spans', () => {
  const document = documentOf('two_ways');
  const { model, overlays } = overlaysOf(document);
  const { weights } = overlays.get('Time in the timeline')();
  const sum = document.timeline.spans.reduce((total, [row, , length, , , place]) => (
    document.timeline.rows[row].kind !== 'device' || place === null ? total
      : total + length / 1e6), 0);
  assert.ok(sum > 0);
  assert.ok(Math.abs(weights.get(model.root) - sum) < 1e-12);
});

test('what the compiler made is blamed on what it was made of, or on its scope, which says so', () => {
  const document = documentOf('two_ways');
  const { model } = overlaysOf(document);
  const dot = boxOf(model, 'dot', 'heavy.1');
  const mul = boxOf(model, 'mul');
  const { line, scopes } = dot.data;
  document.timeline = {
    left_out: 0,
    rows: [{ name: 'host:0', kind: 'device' }],
    places: [
      { op: 'packed', line, scopes, made_of: [{ op: 'dot', line, scopes }] },
      { op: 'unheard_of', line, scopes },
      { op: 'fusion', line, scopes, made_of: [dot.data, mul.data] }],
    spans: [[0, 0, 5e6, 'packed', 1, 0], [0, 5e6, 2e6, 'unheard_of', 1, 1],
      [0, 7e6, 4e6, 'fusion', 1, 2]],
  };
  const { weights, textOf } = makers(model, document.timeline, new Places(model))
    .get('Time in the timeline')();
  assert.equal(weights.get(dot), 5 + 4 / 2);
  assert.equal(weights.get(mul), 4 / 2);
  assert.equal(textOf(dot), '7.0 s');
  assert.equal(textOf(dot.parent), '9.0 s, 2.0 s of it of ops that the compiler made here');
});

test('the hottest colour is of what weighs most, each other of a fifth of the one above it', () => {
  const { model, overlays } = overlaysOf(documentOf('two_ways'));
  const { weights, classOf, legend } = overlays.get('Memory')();
  const most = Math.max(...model.boxes.filter(({ kind }) => !['program', 'slice'].includes(kind))
    .map((box) => weights.get(box)));
  const heatOf = (weight) => {
    weights.set(model.root, weight);
    return classOf(model.root);
  };
  assert.deepEqual([most, most / 4.9, most / 5.1, most / 26, most / 1e6, 0].map(heatOf),
    ['heat4', 'heat4', 'heat3', 'heat2', 'heat0', 'heat0']);
  assert.deepEqual(legend.map(({ kind }) => kind), ['heat4', 'heat3', 'heat2', 'heat1', 'heat0']);
});

test('slices and their devices have a colour each, and what lies in several has none', () => {
  const { model, overlays } = overlaysOf(documentOf('there_and_back'));
  const { classOf, textOf, legend } = overlays.get('Slice')();
  assert.deepEqual(legend, [{ kind: 'set0', text: 'main' }, { kind: 'set1', text: 'second' }]);
  const box = (label) => model.boxes.find((at) => at.label === label);
  assert.deepEqual(['call here', 'call there', 'call again'].map((label) => classOf(box(label))),
    ['set0', 'set1', 'set0']);
  assert.equal(classOf(model.root), '');
  assert.equal(textOf(model.root), 'several');
  const devices = overlays.get('Device')();
  assert.equal(devices.legend.length, 2);
  assert.notEqual(devices.classOf(box('call here')), devices.classOf(box('call there')));
});

test('hostile names are text in the legend', () => {
  const document = documentOf('two_ways');
  for (const node of document.program.functions.flatMap((made) => made.nodes)) {
    if (node.scopes[0] === 'light') node.scopes[0] = '<img src=x>\u0001\u202e';
  }
  document.program.slices[0].name = '<b>\u202e';
  const { overlays } = overlaysOf(document);
  assert.equal(overlays.get('Scope')().legend[0].text, '<img src=x>\u2401\ufffd');
  assert.equal(overlays.get('Slice')().legend[0].text, '<b>\ufffd');
});
