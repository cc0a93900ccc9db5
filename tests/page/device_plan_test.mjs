// The lines of the panel "Device", against the text that the tool prints.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { devicesOf, firstStepOf, stepsOf, summaryOf } from '../../tools/page/src/device_steps.js';
import { Places } from '../../tools/page/src/places.js';
import { boxOf, documentOf, modelOf } from './support.mjs';

function opsOf(steps) {
  return steps.map(({ text }) => /^ {2}([a-z_]+) /.exec(text)?.[1]).filter(Boolean);
}

test('a device does the ops of the tool\'s text, in its order', () => {
  const { plan, said } = documentOf('two_ways');
  const devices = devicesOf(plan);
  assert.equal(devices.length, 2);
  assert.deepEqual(new Set(devices.map(({ name }) => name.replace(/^.*:/, ''))),
    new Set(['0', '1']));
  // The parts of fusions are indented further.
  const expected = [...said.device.matchAll(/\n {2}%[^\n]*? = ([a-z_]+)/g)].map((at) => at[1]);
  assert.ok(expected.length >= 8);
  for (const device of devices) assert.deepEqual(opsOf(stepsOf(plan, device)), expected);
});

test('a call\'s own steps come behind it, with what they exchange', () => {
  const { plan } = documentOf('two_ways');
  const texts = stepsOf(plan, devicesOf(plan)[0]).map(({ text }) => text);
  const call = texts.findIndex((text) => text.startsWith('call '));
  assert.match(texts[call + 1], /^ {2}\S/);
  assert.ok(texts.some((text) => (
    /all_reduce .* over data, each sends \d[\d.]* \w+ {2}page_programs\.h:\d+/.test(text))));
});

test('a device lists the nodes of its own slices alone', () => {
  const { plan } = documentOf('there_and_back');
  const calls = (device) => stepsOf(plan, device).map(({ text }) => text)
    .filter((text) => text.startsWith('call '));
  const lists = devicesOf(plan).map(calls);
  assert.equal(lists.length, 4);
  assert.equal(lists.filter((list) => list.join() === 'call here,call again').length, 2);
  assert.equal(lists.filter((list) => list.join() === 'call there').length, 2);
});

test('a loop says how often its steps run', () => {
  const { plan } = documentOf('train_step');
  const texts = stepsOf(plan, devicesOf(plan)[0]).map(({ text }) => text);
  assert.equal(texts.filter((text) => text.includes('2 times')).length > 0, true);
});

test('the arena and what is in use of it are those that the tool says', () => {
  const { plan, said } = documentOf('two_ways');
  const expected = /arena ([0-9.]+) (\w+), ([0-9.]+) (\w+) of it in use/.exec(said.memory);
  const steps = stepsOf(plan, devicesOf(plan)[0]);
  const summary = /^(\d+) steps\. Arena: ([0-9.]+) (\w+), at most ([0-9.]+) (\w+) of it in use, at /
    .exec(summaryOf(steps));
  assert.equal(Number(summary[1]), steps.length);
  for (const [at, unit] of [[1, 2], [3, 4]]) { // One of them rounds halves up.
    assert.ok(Math.abs(summary[at + 1] - expected[at]) < 0.11, `${summary} ${expected}`);
    assert.equal(summary[unit + 1], expected[unit]);
  }
  assert.match(summaryOf([]), /^0 steps\. Arena: 0 B, at most 0 B of it in use$/);
});

test('a step leads to the box of its line, and a box to its first step', () => {
  const document = documentOf('two_ways');
  const model = modelOf(document);
  const places = new Places(model);
  const steps = stepsOf(document.plan, devicesOf(document.plan)[0]);
  for (const label of ['mul', 'reduce_sum']) {
    const box = boxOf(model, label);
    const at = firstStepOf(steps, box);
    // The compiler has joined some of them: then the step is of several boxes.
    if (at >= 0) assert.ok(steps[at].keys.flatMap((key) => places.at(key)).includes(box));
  }
  const dot = boxOf(model, 'dot', 'heavy.2');
  const at = firstStepOf(steps, dot);
  assert.match(steps[at].text, /^ {2}dot .* in heavy\.2$/);
  assert.equal(places.first(steps[at].keys).id, dot.id);
  assert.equal(places.first(steps[0].keys).kind, 'node');
  assert.equal(firstStepOf(steps, model.root), -1);
});
