// The places of boxes, and the choice of those that are drawn.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { boxesIn, lineKindOf, meets } from '../../tools/page/src/in_view.js';
import { layOut, placeOf } from '../../tools/page/src/layout.js';
import { Model } from '../../tools/page/src/model.js';
import { additions, boxOf, documentOf, laidOut, modelOf } from './support.mjs';

const measure = (text) => text.length * 7;

for (const name of ['two_ways', 'train_step', 'there_and_back']) {
  test(`boxes of ${name} lie in their group, and meet no other`, () => {
    const model = laidOut(modelOf(documentOf(name)));
    for (const { children, width, height } of model.boxes) {
      children.forEach((box, i) => {
        assert.ok(box.x > 0 && box.y > 0, box.label);
        assert.ok(box.x + box.width < width && box.y + box.height < height, box.label);
        for (const other of children.slice(i + 1)) {
          assert.ok(!meets(box, other), `${box.label} meets ${other.label}`);
        }
      });
    }
  });

  test(`boxes of ${name} lie behind what they read`, () => {
    const model = laidOut(modelOf(documentOf(name)));
    const sides = model.boxes.flatMap((box) => box.sides).filter((side) => !side.update);
    assert.ok(sides.length > 4);
    for (const { from, to } of sides) {
      const isCycle = sides.some((other) => other.from === to && other.to === from);
      assert.ok(isCycle || from.x + from.width < to.x, `${from.label} to ${to.label}`);
    }
  });
}

test('opening a group makes room for what is in it, and closing it gives the room back', () => {
  const model = modelOf(documentOf('two_ways'));
  layOut(model.root, measure);
  const { width, height } = model.root;
  const light = model.boxes.find((box) => box.label === 'light');
  model.reveal(light);
  model.setExpanded(light, true);
  layOut(model.root, measure);
  assert.ok(model.root.width > width);
  assert.ok(placeOf(light.children[0]).x > placeOf(light).x);
  model.setAll(false);
  for (const box of model.root.children) model.setExpanded(box, true);
  layOut(model.root, measure);
  assert.deepEqual([model.root.width, model.root.height], [width, height]);
});

test('a long layer goes on in another column', () => {
  const program = additions(1, 1);
  program.nodes = [...Array(100).keys()].map((i) => (
    { ...program.nodes[0], name: `x${i}` }));
  const model = new Model(program);
  layOut(model.root, measure);
  const [slice] = model.root.children;
  assert.equal(new Set(slice.children.map((box) => box.x)).size, 3); // 40, 40 and 20.
});

const room = { each: 2, most: 1e9 };

test('boxes in the window are drawn, and none outside it', () => {
  const model = laidOut(modelOf(documentOf('two_ways')));
  const all = { left: 0, top: 0, right: model.root.width, bottom: model.root.height };
  const ids = [...boxesIn(all, model.root, 1, room).keys()].map((box) => box.id);
  assert.deepEqual(ids.sort((a, b) => a - b), model.boxes.map((box) => box.id));
  const mul = boxOf(model, 'mul');
  const { x, y } = placeOf(mul);
  const around = { left: x + 1, top: y + 1, right: x + 2, bottom: y + 2 };
  const drawn = boxesIn(around, model.root, 1, room);
  const path = [];
  for (let at = mul; at; at = at.parent) path.unshift(at.id);
  assert.deepEqual([...drawn.keys()].map((box) => box.id), path);
  assert.deepEqual(drawn.get(mul), { x, y });
});

test('boxes too small to see are not drawn', () => {
  const model = laidOut(modelOf(documentOf('two_ways')));
  const all = { left: 0, top: 0, right: 1e9, bottom: 1e9 };
  assert.ok(boxesIn(all, model.root, 0.12, room).has(boxOf(model, 'mul')));
  assert.ok(!boxesIn(all, model.root, 0.11, room).has(boxOf(model, 'mul'))); // 2.9 pixels.
});

test('a program of 50,000 nodes takes as many elements as it is allowed', () => {
  const model = laidOut(new Model(additions(500, 100)));
  const all = { left: 0, top: 0, right: model.root.width, bottom: model.root.height };
  for (const [scale, each] of [[0.12, 1], [1, 2]]) {
    const drawn = boxesIn(all, model.root, scale, { each, most: 2400 });
    const open = [...drawn.keys()].filter(({ children }) => children.some((at) => drawn.has(at)));
    const elements = drawn.size * each + open.length * 12; // A line of each kind.
    assert.ok(elements > 2300 && elements <= 2400, String(elements));
    // Only the deepest boxes are left out: ops in their scopes.
    assert.ok(model.boxes.every((box) => box.kind === 'op' || drawn.has(box)));
  }
});

test('wide lines carry much, red ones a collective, dashed ones the next value of a state', () => {
  const side = { update: false, bytes: 4, moves: 0 };
  assert.equal(lineKindOf(side), 'links wide0');
  assert.equal(lineKindOf({ ...side, bytes: 1 << 20 }), 'links wide1');
  assert.equal(lineKindOf({ ...side, bytes: 64 << 20, moves: 2 }), 'links wide2 with');
  assert.equal(lineKindOf({ ...side, update: true }), 'updates wide0');
});
