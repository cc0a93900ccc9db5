// The tree of boxes and its links, against the JSON that it is made of.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Model, shown } from '../../tools/page/src/model.js';
import { additions, boxOf, documentOf, modelOf } from './support.mjs';

const names = ['two_ways', 'train_step', 'there_and_back'];

function counted(values) {
  const counts = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

// Functions that a call or a state names, each once, and bodies.
function drawnOf({ functions, bodies, nodes }) {
  const named = new Set(nodes.map((node) => node.function).filter((at) => at !== undefined));
  return [...[...named].map((at) => functions[at]), ...bodies];
}

for (const name of names) {
  test(`every node of ${name} has one box, and every value that is read one link`, () => {
    const { program } = documentOf(name);
    const { boxes } = modelOf(documentOf(name));
    const drawn = drawnOf(program);
    const ops = drawn.flatMap((made) => made.nodes);
    const ofKind = (kind) => boxes.filter((box) => box.kind === kind);
    assert.deepEqual(ofKind('op').map((box) => box.data), ofKind('op').map((box) => (
      ops.find((node) => node.id === box.data.id && node.op === box.label
        && node.line === box.data.line))));
    assert.deepEqual(counted(ofKind('op').map((box) => `${box.label} ${box.incoming.length}`)),
      counted(ops.map((node) => `${node.op} ${node.inputs.length}`)));
    assert.equal(ofKind('parameter').length,
      drawn.reduce((sum, made) => sum + made.parameters.length, 0));
    assert.deepEqual(ofKind('node').map((box) => box.data), program.nodes);
    assert.deepEqual(ofKind('slice').map((box) => box.label),
      program.slices.map((slice) => slice.name));
  });
}

test('a program of 2,400 ops has a box for each of them, in its scope', () => {
  const program = additions(40, 60);
  const { boxes } = new Model(program);
  const ops = boxes.filter((box) => box.kind === 'op');
  assert.deepEqual(ops.map((box) => box.data), program.functions[0].nodes);
  for (const box of ops) {
    assert.equal(box.parent.label, box.data.scopes[0]);
    assert.equal(box.incoming.length, 2);
  }
});

test('a function that several nodes call is drawn in the first; the others say where', () => {
  const { boxes } = modelOf(documentOf('there_and_back'));
  const calls = boxes.filter((box) => box.kind === 'node' && box.data.kind === 'call');
  assert.deepEqual(calls.map((box) => box.label), ['call here', 'call there', 'call again']);
  assert.ok(calls[0].children.length > 0);
  for (const box of calls.slice(1)) {
    assert.equal(box.children.length, 0);
    assert.equal(box.sameAs?.id, calls[0].id);
  }
});

test('the body of a loop is drawn in its scan', () => {
  const { boxes } = modelOf(documentOf('train_step'));
  const scan = boxes.find((box) => box.label === 'scan');
  assert.deepEqual(scan.children.filter((box) => box.kind === 'op').map((box) => box.label),
    ['dot', 'tanh', 'dot', 'add']);
});

test('states lie in groups by the dots of their names, ops by their scopes', () => {
  const states = modelOf(documentOf('train_step')).boxes.find((box) => box.label === 'params');
  assert.equal(states.kind, 'scope');
  assert.deepEqual(states.children.map((box) => box.label), ['state up', 'state down']);
  const scopes = modelOf(documentOf('two_ways')).boxes.filter((box) => box.kind === 'scope');
  assert.deepEqual(scopes.map((box) => box.label),
    ['heavy.0', 'heavy.1', 'heavy.2', 'heavy.3', 'light']);
});

test('links have the bytes of their value, and the collectives that it becomes', () => {
  const model = modelOf(documentOf('two_ways'));
  const moved = model.links.filter((link) => link.moves.length > 0)
    .map((link) => `${link.from.label} to ${link.to.label}: ${link.moves[0].collectives}`);
  // The product and the sum over rows; and x, of which the last product takes columns.
  assert.deepEqual(new Set(moved), new Set([
    'dot to state w: all_reduce', 'reduce_sum to output y: all_reduce', 'x to dot: all_to_all']));
  assert.deepEqual(boxOf(model, 'mul').incoming.map((link) => link.bytes),
    [256 * 256 * 4, 256 * 256 * 4]);
});

test('a conversion for which nobody sends anything does not mark a link', () => {
  const document = documentOf('two_ways');
  for (const value of Object.values(document.layout.functions).flat()) {
    for (const move of value?.moves ?? []) move.sent_bytes = 0;
  }
  assert.ok(modelOf(document).links.every((link) => link.moves.length === 0));
});

test('only a link from a call to a state is an update', () => {
  const { links } = modelOf(documentOf('two_ways'));
  assert.deepEqual(links.filter((link) => link.update).map(({ from, to }) => (
    `${from.label} to ${to.label}`)), ['dot to state w']);
});

test('lines between the boxes of a group stand for all links between them', () => {
  const model = modelOf(documentOf('two_ways'));
  const sides = model.boxes.flatMap((box) => box.sides);
  for (const side of sides) assert.equal(side.from.parent.id, side.to.parent.id);
  const across = model.links.filter(({ from, to }) => {
    const around = (box) => (box ? [box, ...around(box.parent)] : []);
    return !around(from).includes(to) && !around(to).includes(from);
  });
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  assert.equal(sum(sides.map((side) => side.count)), across.length);
  assert.equal(sum(sides.map((side) => side.bytes)), sum(across.map((link) => link.bytes)));
});

test('a box is visible when all that it lies in is open', () => {
  const model = modelOf(documentOf('two_ways'));
  const box = boxOf(model, 'dot', 'heavy.2');
  assert.equal(model.isVisible(box), false);
  model.reveal(box);
  assert.equal(model.isVisible(box), true);
  assert.equal(model.isVisible(boxOf(model, 'dot', 'heavy.1')), false);
  model.setExpanded(box.parent, false);
  assert.equal(model.isVisible(box), false);
  model.setAll(true);
  assert.ok(model.boxes.every((at) => model.isVisible(at)));
});

test('names are shown without what controls a terminal or turns text, and cut', () => {
  assert.equal(shown('<!--<script>\u0001\u202e'), '<!--<script>\u2401\ufffd');
  for (const unseen of ['\u007f', '\u0085', '\u200b', '\u2028', '\u2066', '\ufeff', '\u061c']) {
    assert.equal(shown(`a${unseen}b`), 'a\ufffdb', unseen.codePointAt(0).toString(16));
  }
  assert.equal(shown('w'.repeat(1 << 20)).length, 200);
  const document = documentOf('two_ways');
  document.program.name = '</script><script>window.ran = 1</script>';
  document.program.nodes.at(-1).name = `\u001b[31m${'w'.repeat(1 << 20)}`;
  const { root, boxes } = modelOf(document);
  assert.equal(root.label, '</script><script>window.ran = 1</script>');
  for (const { label } of boxes) assert.match(label, /^[^\u0000-\u001f]{1,200}$/);
});
