// Boxes that words or a place of the source find, and the texts of the details of a box.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { carriedText, detailsOf, pathOf } from '../../tools/page/src/details_text.js';
import { Places } from '../../tools/page/src/places.js';
import { boxesWith, textOfBox } from '../../tools/page/src/search.js';
import { bytesText, numberText, secondsText } from '../../tools/page/src/units.js';
import { boxOf, documentOf, modelOf } from './support.mjs';

const model = modelOf(documentOf('two_ways'));
const boxesOf = (words) => boxesWith(words, model.boxes, model.boxes.map(textOfBox));

test('words find boxes by a part of their name, op, type or line, in any case', () => {
  assert.deepEqual(boxesOf(' LIGHT ').map((box) => box.label), ['light']);
  assert.deepEqual(boxesOf('reduce').map((box) => box.label), ['reduce_sum']);
  assert.deepEqual(boxesOf(boxOf(model, 'mul').data.line).map((box) => box.label), ['mul']);
  assert.equal(boxesOf('heavy').length, 4);
  assert.deepEqual(boxesOf(''), []);
  assert.deepEqual(boxesOf('nothing of that name'), []);
});

test('at most 50 boxes are found', () => {
  const boxes = [...Array(80).keys()].map((i) => ({ label: `a${i}`, data: {} }));
  assert.deepEqual(boxesWith('a', boxes, boxes.map(textOfBox)), boxes.slice(0, 50));
});

test('the details of an op have every field of its JSON, and how it lies', () => {
  const mul = boxOf(model, 'mul');
  const rows = new Map(detailsOf(mul, null));
  assert.equal(rows.get('op'), 'mul');
  assert.match(rows.get('results'), /^%\d+ f32\[256, 256\]/);
  assert.match(rows.get('line'), /^page_programs\.h:\d+$/);
  assert.equal(rows.get('lies'), 'shard(0)');
  assert.match(mul.laid.why, /is shard\(0\) on data/);
  assert.match(pathOf(mul), /^two ways \/ .* \/ mul$/);
  assert.equal(rows.has('id'), false);
  for (const [name, value] of Object.entries(mul.data)) {
    const isSaid = name !== 'id' && Object.keys(value).length > 0;
    assert.equal(rows.has(name), isSaid || typeof value === 'number' && name !== 'id', name);
  }
});

test('a call whose function is drawn elsewhere says where', () => {
  const { boxes } = modelOf(documentOf('there_and_back'));
  const again = boxes.find((box) => box.label === 'call again');
  assert.match(new Map(detailsOf(again, null)).get('drawn in'), / \/ call here$/);
});

test('the overlay says its own of a box', () => {
  const overlay = { title: 'bytes of results', textOf: (box) => `of ${box.label}` };
  assert.equal(new Map(detailsOf(boxOf(model, 'mul'), overlay)).get('bytes of results'), 'of mul');
});

test('long values are cut, and hostile ones are shown as text', () => {
  const data = { line: `${'w'.repeat(3000)}`, name: '<b>\u0001\nnext' };
  const rows = new Map(detailsOf({ data, children: [] }, null));
  assert.equal(rows.get('line'), `${'w'.repeat(2000)}\u2026`);
  assert.equal(rows.get('name'), '<b>\u2401\nnext');
});

test('a link says its bytes and each kind of collective once', () => {
  const move = { collectives: ['all_reduce', 'all_to_all'] };
  assert.equal(carriedText(256 * 256 * 4, []), '256.0 KiB');
  assert.equal(carriedText(12, [move, { collectives: ['all_reduce'] }]),
    '12 B all_reduce all_to_all');
});

test('a place of the source finds its op, or those that its op was made of, or its scope', () => {
  const places = new Places(model);
  const dot = boxOf(model, 'dot', 'heavy.2');
  const { op, line, scopes } = dot.data;
  const found = (place) => places.boxOf({ op, line, scopes, ...place });
  assert.equal(found({}), dot);
  assert.equal(found({ op: 'fusion', made_of: [{ op, line, scopes }] }), dot);
  assert.equal(found({ op: 'fusion' }), dot.parent);
  assert.equal(dot.parent.kind, 'scope');
  assert.equal(found({ line: '' }), dot.parent);
  assert.equal(found({ scopes: ['heavy.9'] }), boxOf(model, 'call main'));
  const [mul] = [boxOf(model, 'mul')];
  assert.deepEqual(places.boxesOf({ op: 'fusion', line, scopes, made_of: [dot.data, mul.data] }),
    [dot, mul]);
});

test('numbers are said as people read them', () => {
  assert.deepEqual([0, 1023, 1024, 5 * 2 ** 40].map(bytesText),
    ['0 B', '1023 B', '1.0 KiB', '5.0 TiB']);
  assert.deepEqual([2, 0.0125, 3e-6, 4e-10].map(secondsText),
    ['2.0 s', '12.5 ms', '3.0 us', '0.4 ns']);
  assert.deepEqual([NaN, null, 4 / 3, 46_789, 2.5e6, 0.00012].map(numberText),
    ['-', '-', '1.333', '46.8k', '2.5M', '1.20e-4']);
});
