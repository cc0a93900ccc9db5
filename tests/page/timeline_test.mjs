// Compares the rows and spans of the panel "Timeline" with the simulator's counts.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LiveTimeline } from '../../tools/page/src/live_timeline.js';
import { Places } from '../../tools/page/src/places.js';
import { Timeline } from '../../tools/page/src/timeline.js';
import {
  rowText, rowsOf, spanAt, spanText, wholeText,
} from '../../tools/page/src/timeline_rows.js';
import { boxOf, documentOf, modelOf } from './support.mjs';

test('devices are busy for the time that the simulator counted', () => {
  const { timeline, said } = documentOf('there_and_back');
  const { rows, end } = rowsOf(timeline);
  const devices = rows.filter((row) => row.kind === 'device');
  assert.equal(devices.length, 4);
  const us = devices.reduce((sum, row) => sum + row.busy * end, 0);
  assert.equal(Math.round(us * 1000), said.busy_ns);
  assert.equal(timeline.left_out, 0);
});

test('a device that waits for another is idle meanwhile', () => {
  const { rows } = rowsOf(documentOf('there_and_back').timeline);
  for (const row of rows.filter(({ kind }) => kind === 'device')) {
    assert.ok(row.busy > 0 && row.busy < 0.9, `${row.name}: ${row.busy}`);
  }
});

test('ops that overlap count once, and runs, which wait too, do not', () => {
  const timeline = { left_out: 0, places: [{}], rows: [{ name: 'a', kind: 'device' }],
    spans: [[0, 0, 100, 'run', 1, null], [0, 10, 20, 'dot', 1, 0], [0, 20, 20, 'add', 1, 0],
      [0, 50, 10, 'mul', 1, 0]] };
  const { rows: [row], end } = rowsOf(timeline);
  assert.equal(end, 100);
  assert.equal(row.busy, 0.4);
  assert.equal(rowText(row), 'a: 40.0 % busy');
  assert.equal(rowText({ ...row, kind: 'host' }), 'a');
});

test('the innermost span at a time is found', () => {
  const { rows } = rowsOf(documentOf('two_ways').timeline);
  const row = rows.find(({ kind }) => kind === 'device');
  const ops = row.spans.filter((span) => span.place !== null
    && span.name !== 'barrier'); // A barrier has a run of its own, which is as long.
  assert.ok(ops.length >= 8);
  for (const span of ops) assert.equal(spanAt(row, (span.begin + span.end) / 2), span);
  const run = row.spans.find((span) => span.name === 'run');
  assert.equal(spanAt({ spans: [run] }, (run.begin + run.end) / 2), run);
  assert.equal(spanAt({ spans: [run] }, run.end + 1), null);
});

test('a span says where it is from, and all of it what is left out', () => {
  const { timeline } = documentOf('two_ways');
  const { rows, end } = rowsOf(timeline);
  const row = rows.find(({ kind }) => kind === 'device');
  const dot = row.spans.find((span) => (
    span.place !== null && timeline.places[span.place].scopes[0] === 'heavy.2'));
  assert.match(spanText(timeline, rows, dot), new RegExp(
    `^dot on ${row.name}: [0-9.]+ [mun]s from [0-9.]+ [mun]?s, run \\d+ `
      + 'page_programs\\.h:\\d+ in heavy\\.2$'));
  assert.match(wholeText(timeline, { rows, end }), /^[0-9.]+ [mun]s$/);
  const cut = { ...timeline, left_out: 3, rows: [...timeline.rows, {}],
    silent: { far: 'gone\u0001' } };
  assert.match(wholeText(cut, { rows, end }), new RegExp(
    's; 3 earlier spans are left out; 1 more rows are not shown; nothing of far: gone\u2401$'));
});

// A timeline whose panel is closed.
function timelineOf(document) {
  const model = modelOf(document);
  const view = { model, selected: model.root, overlay: null, whenSelected: [],
    show(box) {
      this.selected = box;
      for (const done of this.whenSelected) done(box);
    } };
  const places = new Places(model);
  return { model, view, spans: new Timeline({ add() {} }, view, places, document.timeline) };
}

test('spans and boxes select each other', () => {
  const { model, view, spans } = timelineOf(documentOf('two_ways'));
  spans.said = {};
  const row = spans.rows.findIndex(({ kind }) => kind === 'device');
  const span = spans.rows[row].spans.find((at) => at.name === 'reduce_sum' || at.name === 'dot');
  spans.choose(span);
  assert.equal(spans.selected, span);
  assert.equal(view.selected.id, spans.boxes[span.place].id);
  assert.ok(spans.said.textContent.startsWith(`${span.name} on ${spans.rows[row].name}`));
  view.show(boxOf(model, 'dot', 'heavy.2'));
  assert.deepEqual(spans.timeline.places[spans.selected.place].scopes, ['heavy.2']);
  view.show(model.root);
  assert.equal(spans.selected, null);
});

test('arrows go from span to span and from row to row', () => {
  const { spans } = timelineOf(documentOf('two_ways'));
  spans.said = {};
  spans.other(1);
  spans.beside(1);
  assert.equal(spans.selected, spans.rows[0].spans[spans.rows[0].spans.indexOf(spans.selected)]);
  const row = spans.rows.findIndex(({ kind }) => kind === 'device');
  [spans.selected] = spans.rows[row].spans;
  spans.beside(1);
  assert.equal(spans.selected, spans.rows[row].spans[1]);
  spans.beside(-1);
  assert.equal(spans.selected, spans.rows[row].spans[0]);
});

test('zooming keeps the middle where it is, and stays within the timeline', () => {
  const { spans } = timelineOf(documentOf('two_ways'));
  spans.zoomTo(0.5, spans.end / 4);
  assert.deepEqual([spans.from, spans.to], [spans.end / 8, spans.end * 5 / 8]);
  spans.zoomTo(1e-9, spans.end);
  assert.ok(spans.to - spans.from >= 0.0999 && spans.to <= spans.end + 1e-9);
  spans.zoomTo(Infinity, spans.from);
  assert.deepEqual([spans.from, spans.to], [0, spans.end]);
});

function liveOf(answers) {
  const { view } = timelineOf(documentOf('two_ways'));
  const coloured = [];
  const panels = { open: 'Timeline', add() {} };
  const live = new LiveTimeline({ panels, view, places: new Places(view.model),
    overlays: { setTimeline: (timeline) => coloured.push(timeline) } },
  async () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return JSON.stringify(answer);
  });
  const poll = async () => {
    live.next = 0; // As if two seconds had passed.
    await live.poll();
  };
  return { live, panels, coloured, poll };
}

test('the newest timeline comes while the panel is open, and colours the graph', async () => {
  const { timeline } = documentOf('two_ways');
  const { live, panels, coloured, poll } = liveOf([timeline, timeline]);
  panels.open = 'Cluster';
  await poll();
  assert.equal(live.taken, 0);
  panels.open = 'Timeline';
  await poll();
  await live.poll(); // Too soon for the second.
  assert.equal(live.taken, 1);
  assert.deepEqual(coloured, [timeline]);
  assert.equal(live.spans.timeline.spans.length, timeline.spans.length);
});

test('somebody who looks closer is not disturbed until the button is pressed', async () => {
  const { timeline } = documentOf('two_ways');
  const answers = [timeline, timeline, timeline];
  const { live, poll } = liveOf(answers);
  await poll();
  live.spans.zoomTo(0.7, 0);
  assert.equal(live.isHeld, true);
  await poll();
  assert.equal(live.taken, 1);
  assert.equal(answers.length, 2); // Nothing was asked.
  live.hold(false);
  await live.poll();
  assert.equal(live.taken, 2);
});

test('the last timeline of a program that has gone stays; other errors are thrown', async () => {
  const { timeline } = documentOf('two_ways');
  const gone = Object.assign(new Error('no such program'), { status: 400 });
  const { live, poll } = liveOf([timeline, gone, new Error('not connected')]);
  await poll();
  await poll();
  assert.equal(live.why, 'no such program');
  assert.equal(live.spans.timeline.spans.length, timeline.spans.length);
  await assert.rejects(poll, /not connected/);
});
