// The steps of one device in a run, as lines of text, with the bytes of its arena in use at each.
import { shown } from './model.js';
import { keysOf, nodeKey, opKeys } from './places.js';
import { bytesText } from './units.js';

// Returns every device that some slice lies on.
export function devicesOf(plan) {
  const found = new Map();
  plan.slices.forEach((slice, s) => {
    for (const { host, device } of slice.devices) {
      const name = `${plan.hosts[host]}:${device}`;
      if (!found.has(name)) found.set(name, { name, slices: new Set() });
      found.get(name).slices.add(s);
    }
  });
  return [...found.values()];
}

// Returns the steps in the order in which the device does them, a call's own steps behind it.
export function stepsOf(plan, device) {
  const steps = [];
  for (const node of plan.nodes) {
    if (node.kind !== 'gate' && !device.slices.has(node.slice)) continue;
    const name = node.call === undefined ? node.name : plan.nodes[node.call].name;
    steps.push({ text: shown(`${node.kind} ${name}`), keys: [nodeKey(name)] });
    if (node.function === undefined) continue;
    const made = plan.functions[node.function];
    for (const step of made.steps) {
      steps.push({
        text: stepText(step), keys: opKeys(step), arena: step.arena, arenaBytes: made.arena_bytes,
      });
    }
  }
  return steps;
}

function stepText(step) {
  const { op, types, bytes, times, line, scopes, collective } = step;
  const parts = [op, types.join(', '), bytesText(bytes)];
  if (times > 1) parts.push(`${times} times`);
  if (collective) {
    parts.push(`over ${collective.axes}, each sends ${bytesText(collective.sent_bytes)}`);
  }
  parts.push([line, ...scopes.toReversed()].filter((part) => part !== '').join(' in '));
  return shown(`  ${parts.join('  ')}`);
}

export function arenaBytesOf(steps) {
  return steps.reduce((most, step) => Math.max(most, step.arenaBytes ?? 0), 0);
}

export function summaryOf(steps) {
  const arenas = steps.filter((step) => step.arena !== undefined);
  const most = arenas.reduce((a, b) => (b.arena > a.arena ? b : a), { arena: 0, text: '' });
  return `${steps.length} steps. Arena: ${bytesText(arenaBytesOf(steps))}, at most `
    + `${bytesText(most.arena)} of it in use${most.arena > 0 ? `, at ${most.text}` : ''}`;
}

// Returns the number of the first step of a box, else of the first op made of it; -1: none.
export function firstStepOf(steps, box) {
  const [key] = keysOf(box);
  if (key === undefined) return -1;
  const own = steps.findIndex((step) => step.keys[0] === key);
  return own >= 0 ? own : steps.findIndex((step) => step.keys.includes(key));
}
