// The points of a training that are drawn, their places, and the text of a step.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CurveSteps } from '../../tools/page/src/curve_steps.js';
import {
  bandPath, linePath, scalesOf, sound, stackedOf, ticksOf,
} from '../../tools/page/src/series_points.js';
import './support.mjs';

function curve(name, first, last) {
  const points = [];
  for (let step = first; step <= last; ++step) {
    points.push({ step, loss: step === 57 ? null : 1 + 100 / step,
      tokens_per_s: 44_000 + 10 * step });
  }
  return { name, points };
}

function stepsOfTwo() {
  const steps = new CurveSteps();
  steps.read([curve('<b>first</b>', 20, 200), curve('second', 50, 300)]);
  return steps;
}

function textAt(steps, step) {
  steps.step = step;
  return steps.textOfStep();
}

test('keys go from step to step, by a tenth of all, and to both ends', () => {
  const steps = stepsOfTwo();
  assert.equal(steps.steps.length, 281);
  assert.equal(steps.stepOfKey('End'), 300);
  assert.equal(steps.stepOfKey('ArrowLeft'), 299); // Where nothing was looked at yet.
  steps.step = 100;
  assert.deepEqual(['ArrowLeft', 'ArrowRight', 'PageUp', 'PageDown', 'Home', 'x'].map(
    (key) => steps.stepOfKey(key)), [99, 101, 128, 72, 20, undefined]);
  steps.step = 20;
  assert.deepEqual(['ArrowLeft', 'PageDown'].map((key) => steps.stepOfKey(key)), [20, 20]);
  steps.step = 300;
  assert.deepEqual(['ArrowRight', 'PageUp'].map((key) => steps.stepOfKey(key)), [300, 300]);
  steps.read([]);
  assert.equal(steps.stepOfKey('End'), undefined);
});

test('the text of a step names each training that did it', () => {
  const steps = stepsOfTwo();
  assert.equal(textAt(steps, null), null);
  assert.equal(textAt(steps, 300), 'Step 300: second loss 1.333, 47k tokens/s');
  assert.equal(textAt(steps, 100),
    'Step 100: <b>first</b> loss 2, 45k tokens/s; second loss 2, 45k tokens/s');
  assert.equal(textAt(steps, 57),
    'Step 57: <b>first</b> loss -, 44.6k tokens/s; second loss -, 44.6k tokens/s');
  assert.equal(textAt(steps, 301), null);
});

test('a step that is looked at stays when others come', () => {
  const steps = stepsOfTwo();
  const before = textAt(steps, 300);
  steps.read([curve('<b>first</b>', 20, 200), curve('second', 50, 310)]);
  assert.equal(steps.textOfStep(), before);
  assert.equal(steps.stepOfKey('ArrowRight'), 301);
});

test('the step nearest to the pointer is found, also across a gap and beside all', () => {
  const steps = stepsOfTwo();
  const toX = (step) => 62 + 2 * step;
  assert.equal(steps.nearestTo(toX(57), toX), 57);
  assert.equal(steps.nearestTo(toX(57) + 0.9, toX), 57);
  assert.equal(steps.nearestTo(toX(57) + 1.1, toX), 58);
  assert.equal(steps.nearestTo(-1000, toX), 20);
  assert.equal(steps.nearestTo(5000, toX), 300);
});

test('lines go through the points of the document, with a gap where one lacks', () => {
  const steps = stepsOfTwo();
  const { lines, title, colours } = steps.chartOf('Loss', '', 'loss');
  assert.equal(title, 'Loss');
  assert.deepEqual(colours, [0, 1]);
  const kept = lines.map((line) => ({ ...line, points: sound(line.points) }));
  const { xs, ys, toX, toY, left, right, top, bottom } = scalesOf(640, kept, null);
  assert.deepEqual(xs, [20, 300]);
  assert.deepEqual(ys, [1 + 100 / 300, 6]);
  assert.deepEqual([toX(20), toX(300), toY(6), toY(ys[0])], [left, right, top, bottom]);
  kept.forEach(({ points }, i) => {
    const d = linePath(points, toX, toY);
    assert.equal(d.match(/M/g).length, 2); // Before the gap and behind it.
    const ends = d.replaceAll('h0.01', '').split(/[ML]/).slice(1)
      .map((end) => end.split(' ').map(Number));
    const known = steps.curves[i].points.filter(({ loss }) => loss !== null);
    assert.equal(ends.length, known.length);
    known.forEach(({ step, loss }, at) => {
      const off = Math.hypot(ends[at][0] - toX(step), ends[at][1] - toY(loss));
      assert.ok(off < 0.2, `${step}: ${off}`);
    });
  });
});

test('the lowest, the highest and the gaps of many points are kept', () => {
  const many = [...Array(20_000).keys()].map((x) => [x, Math.sin(x / 9)]);
  many[777] = [777, 50];
  many[7777] = [7777, -50];
  many[12_345] = [12_345, NaN];
  const kept = sound(many);
  assert.ok(kept.length > 600 && kept.length <= 902, String(kept.length));
  const has = (x, y) => kept.some((point) => point[0] === x && point[1] === y);
  assert.ok(has(777, 50) && has(7777, -50) && has(12_345, null));
  assert.deepEqual([kept[0], kept.at(-1)], [many[0], many.at(-1)]);
  kept.forEach(([x], i) => assert.ok(i === 0 || x > kept[i - 1][0]));
});

test('stacked areas hold a value until the next, and are empty before and behind', () => {
  const bands = stackedOf([{ points: [[0, 1], [10, 2]] }, { points: [[5, 10], [15, 20]] }]);
  assert.deepEqual(bands[0].map(({ x, low, high }) => [x, low, high]),
    [[0, 0, 1], [5, 0, 1], [10, 0, 2], [15, 0, 0]]);
  assert.deepEqual(bands[1].map(({ x, low, high }) => [x, low, high]),
    [[0, 1, 1], [5, 1, 11], [10, 2, 12], [15, 0, 20]]);
  const { ys } = scalesOf(640, [{ points: [[0, 1], [15, 2]] }], bands);
  assert.deepEqual(ys, [0, 20]);
  assert.equal(bandPath(bands[0].slice(0, 2), (x) => x, (y) => y),
    'M0.0 1.0L5.0 1.0L5.0 0.0L0.0 0.0Z');
});

test('ticks are round numbers in the range, not nearer than asked for', () => {
  assert.deepEqual(ticksOf([0, 100], 4), [0, 25, 50, 75, 100]);
  assert.deepEqual(ticksOf([1.1, 2.9], 4), [1.5, 2, 2.5]);
  assert.deepEqual(ticksOf([3, 5], 10, 1), [3, 4, 5]);
  for (const range of [[0, 1e9], [-3, -2.9], [1e-6, 2e-6]]) {
    const ticks = ticksOf(range, 5);
    assert.ok(ticks.length >= 2 && ticks.length <= 7);
    assert.ok(ticks.every((at) => at >= range[0] - 1e-12 && at <= range[1] + 1e-12));
  }
});
