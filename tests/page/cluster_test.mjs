// The page of a running cluster, from answers of a controller as docs/page_document.md has them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ClusterState } from '../../tools/page/src/cluster_state.js';
import {
  cellsOf, hostText, inIslands, nameOf, pageAt, stepsOfSamples,
} from '../../tools/page/src/cluster_text.js';
import { choicesOf, executableOf, nextShown } from '../../tools/page/src/executables.js';
import { openAsBefore, openNow } from '../../tools/page/src/kept_boxes.js';
import { boxOf, documentOf, modelOf } from './support.mjs';

const host = (name, more = {}) => ({ host: name, island: 'a', kind: 'cpu', devices: 4,
  memory_bytes: 2 ** 30, memory_used: 2 ** 20, suspect_ms: 0, stuck: '', ...more });
const program = (id, name, more = {}) => ({ id, program: name, owner: 'ada', step: 3, loss: 0.25,
  tokens_per_s: 100, used: 0.5, memory_bytes: 2048, devices: 2, runs_done: 3, runs_in_flight: 1,
  runs_waiting: 0, ...more });

function clusterOf(programs, held = [], hosts = [host('h')]) {
  const cluster = new ClusterState();
  cluster.setNow({ hosts, programs, held });
  return cluster;
}

test('devices are said with who holds them, equal neighbours together', () => {
  const held = [0, 1].map((device) => ({ host: 'h', device, id: 1 }));
  const cluster = clusterOf([program(1, 'first')], held);
  assert.equal(cluster.holdersText(4, cluster.heldBy.get('h')), '0-1 first, 2-3 free');
  cluster.setNow({ hosts: [], programs: [program(1, 'first'), program(2, 'second')],
    held: [...held, { host: 'h', device: 1, id: 2 }, { host: 'h', device: 3, id: 9 }] });
  assert.equal(cluster.holdersText(4, cluster.heldBy.get('h')),
    '0 first, 1 first + second, 2 free, 3 program 9');
  assert.equal(cluster.holdersText(2, new Map()), '0-1 free');
});

test('a host with many holders is said in 16 parts', () => {
  const held = [...Array(40).keys()].map((device) => ({ host: 'h', device, id: device }));
  const text = clusterOf([], held).holdersText(40, clusterOf([], held).heldBy.get('h'));
  assert.equal(text.split(', ').length, 17);
  assert.ok(text.endsWith(', \u2026'));
});

test('the summary counts hosts, devices, and the programs on them', () => {
  const programs = [program(1, 'a'), program(2, 'b', { devices: 0 })];
  assert.equal(clusterOf(programs, [], [host('h'), host('i')]).summary(),
    '2 hosts, 8 devices, 1 program on them');
});

test('hosts are in the order of their islands and names, with what is wrong with them', () => {
  const hosts = [host('b', { island: 'z' }), host('c'), host('a')];
  assert.deepEqual(inIslands(hosts).map((at) => at.host), ['a', 'c', 'b']);
  assert.deepEqual(hosts.map((at) => at.host), ['b', 'c', 'a']);
  assert.equal(hostText(host('h')), '4 cpu, of the fullest 1.0 MiB of 1.0 GiB used');
  assert.equal(hostText(host('h', { draining: true, suspect_ms: 2500, stuck: 'in a\u0001 run' })),
    '4 cpu, of the fullest 1.0 MiB of 1.0 GiB used, draining, silent for 2.5 s, '
      + 'stuck: in a\u2401 run');
});

test('a program\'s row says how far it is, what it uses, and whether it runs', () => {
  assert.deepEqual(cellsOf(program(1, 'a')), ['ada', '3', '0.25', '100', '50.0%', '2.0 KiB', 2,
    '3 done, 1 in flight, 0 waiting', 'runs']);
  assert.equal(cellsOf(program(1, 'a', { suspended: true, detached: true, waits_for: 'h' })).at(-1),
    'suspended, detached, waits for h');
  assert.deepEqual(cellsOf(program(1, 'a', { loss: null })).slice(2, 3), ['-']);
});

test('programs of others are named by their owner, or by number', () => {
  assert.deepEqual([{ id: 7, program: 'p' }, { id: 7, owner: 'bob' }, { id: 7 }].map(nameOf),
    ['p', 'one of bob', 'program 7']);
});

test('a thousand hosts are shown a page of rows at a time', () => {
  const all = [...Array(1000).keys()];
  assert.deepEqual(pageAt(all, 6, 0), { at: 0, last: 166, some: [0, 1, 2, 3, 4, 5] });
  assert.deepEqual(pageAt(all, 6, 999), { at: 166, last: 166, some: [996, 997, 998, 999] });
  assert.deepEqual(pageAt([], 6, 3), { at: 0, last: 0, some: [] });
});

// [sample, time, step, loss, tokens/s, share]
const samples = (from, to) => [...Array(to - from).keys()].map((i) => (
  [from + i, 1000 * (from + i), from + i, 1, 100, 0.5]));
const history = (...programs) => ({ programs });
const past = (id, points, ended = false) => (
  { id, program: `p${id}`, owner: 'ada', ended, points });

test('samples come behind those that are known, and programs that are forgotten go', () => {
  const cluster = clusterOf([program(1, 'p1')]);
  cluster.addHistory(history(past(1, samples(0, 3)), past(2, samples(0, 3))));
  cluster.addHistory(history(past(1, samples(3, 5))));
  assert.deepEqual([...cluster.curves.keys()], [1]);
  assert.deepEqual(cluster.curves.get(1).points, samples(0, 5));
  cluster.forget();
  assert.equal(cluster.curves.size, 0);
  assert.equal(cluster.now, null);
});

test('a curve does not grow without end', () => {
  const cluster = clusterOf([]);
  for (let at = 0; at < 5000; at += 100) {
    cluster.addHistory(history(past(1, samples(at, at + 100))));
    assert.ok(cluster.curves.get(1).points.length <= 1024);
  }
  const steps = cluster.curves.get(1).points.map(([sample]) => sample);
  assert.equal(steps[0], 0);
  assert.ok(steps.at(-1) > 4900);
});

test('six programs have curves: those that run and then the newest', () => {
  const cluster = clusterOf([]);
  cluster.addHistory(history(...[...Array(10).keys()].map((id) => (
    past(id, samples(id, id + 2), id >= 5))), past(99, [])));
  assert.deepEqual(cluster.namedCurves().map(({ name }) => name),
    ['p0', 'p1', 'p2', 'p3', 'p4', 'p9 (ended)']);
});

test('a program keeps its colour, and a free one is given again', () => {
  const cluster = clusterOf([program(5, 'a'), program(6, 'b')]);
  assert.deepEqual([5, 6, 5].map((id) => cluster.colourOf(id)), [0, 1, 0]);
  cluster.setNow({ hosts: [], held: [], programs: [program(6, 'b'), program(7, 'c')] });
  assert.deepEqual([6, 7].map((id) => cluster.colourOf(id)), [1, 0]);
});

test('the steps of samples are drawn, without those before the first report', () => {
  const points = [[0, 0, null, null, null, 0.5], [1, 1000, 1, 0.5, 100, 0.5]];
  assert.deepEqual(stepsOfSamples([{ name: 'a', colour: 3, points }]),
    [{ name: 'a', colour: 3, points: [{ step: 1, loss: 0.5, tokens_per_s: 100 }] }]);
});

const compiled = [{ id: 1, plan: 10, name: 'step' }, { id: 2, plan: 11, name: 'other' },
  { id: 1, plan: 12, name: 'step' }, { id: 1, plan: 13, name: 'eval' }];

test('an executable is found by its plan, else the last of its name, else the last of all', () => {
  const planOf = (wanted) => executableOf(compiled, wanted)?.plan;
  assert.deepEqual([{ id: 1, plan: 10 }, { id: 1, plan: 9, name: 'step' }, { id: 1 }, { id: 3 }]
    .map(planOf), [10, 12, 13, undefined]);
  assert.equal(nextShown(compiled, null).plan, 10);
  assert.equal(nextShown(compiled, { id: 3, plan: 1 }), null); // It has ended, and stays.
  assert.equal(nextShown([], null), undefined);
});

test('the choice names what runs, and what is shown though it has ended', () => {
  const { programs } = clusterOf([program(1, 'step'), program(2, 'next')]);
  assert.deepEqual(choicesOf(compiled.slice(0, 2), programs, compiled[1]),
    { options: [['1 10', 'step'], ['2 11', 'next: other']], at: '2 11' });
  assert.deepEqual(choicesOf(compiled.slice(0, 1), programs, compiled[3]).options[0],
    ['1 13', 'eval (ended)']);
  assert.deepEqual(choicesOf([], undefined, null), { options: [['', 'no program runs']], at: '' });
});

test('the next graph of a program is open where the last one was', () => {
  const before = modelOf(documentOf('two_ways'));
  const selected = boxOf(before, 'dot', 'heavy.2');
  before.reveal(selected);
  const kept = openNow(before, selected);
  const after = modelOf(documentOf('two_ways'));
  assert.equal(openAsBefore(after, kept)?.id, boxOf(after, 'dot', 'heavy.2').id);
  assert.deepEqual(after.boxes.map((box) => box.expanded), before.boxes.map((box) => box.expanded));
  const other = modelOf(documentOf('there_and_back'));
  assert.equal(openAsBefore(other, kept)?.id, undefined);
});
