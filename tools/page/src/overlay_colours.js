// The colours of overlays: by where boxes run, by their cost, or by what the program waits for. A
// closed group has the colour of its boxes.
import { criticalBoxes, nodeAround } from './critical_path.js';
import { shown } from './model.js';
import { bytesText, secondsText } from './units.js';

const kHeats = 5; // Number of colours in overlays.css, the lowest first.
const kSets = 8;
const kLegend = 24;

// Returns the weight of each box: own(box), its own weight for one run of the function that it is
// in, or if that is undefined the sum over the boxes below it.
function weigh(model, own) {
  const weights = new Map();
  // Children have larger numbers than their parents.
  for (const box of model.boxes.toReversed()) {
    let weight = own(box);
    if (weight === undefined) {
      weight = 0;
      for (const child of box.children) weight += weights.get(child);
    }
    weights.set(box, weight);
  }
  return weights;
}

// Returns the seconds that one device takes by the rates of the layout, for its part: a roofline.
function secondsOf(model, box) {
  const { rates } = model.layout;
  const cost = box.kind === 'op' ? box.data.cost
    : model.program.functions[box.data.function]?.cost;
  if (!cost) return 0;
  const devices = devicesAround(model, box);
  return rates.launch_ns / 1e9 + Math.max(cost.flops / rates.flops_per_s,
    cost.bytes / rates.memory_bytes_per_s) / devices;
}

function devicesAround(model, box) {
  const { mesh } = model.program.slices[nodeAround(box).data.slice];
  return mesh.reduce((product, axis) => product * axis.size, 1);
}

function timesOf(model) {
  return weigh(model, (box) => {
    if (box.kind === 'op') return secondsOf(model, box);
    if (box.kind === 'parameter') return 0;
    if (box.kind !== 'node') return undefined;
    return box.data.kind === 'call' ? secondsOf(model, box) : 0;
  });
}

function bytesOf(model) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  return weigh(model, (box) => {
    if (box.kind === 'op') return sum(box.data.results.map((result) => result.bytes));
    if (box.kind === 'parameter') return 0; // Its bytes are those of the box that gives it.
    if (box.kind !== 'node') return undefined;
    if (box.data.kind !== 'call') return sum(box.data.bytes);
    return box.children.length > 0 ? undefined : sum(box.data.bytes);
  });
}

// Returns the name of each box's set; a group whose boxes are of several sets has none.
function setsOf(model, nameOf) {
  const names = new Map();
  for (const box of model.boxes.toReversed()) {
    if (box.kind === 'node') {
      names.set(box, nameOf(box.data));
    } else if (box.owner) {
      names.set(box, nameOf(nodeAround(box).data));
    } else {
      const all = new Set(box.children.map((child) => names.get(child)));
      names.set(box, all.size === 1 ? [...all][0] : undefined);
    }
  }
  return names;
}

function devicesOfSlice(plan, slice) {
  const names = plan.slices[slice].devices.map(({ host, device }) => (
    `${plan.hosts[host]}:${device}`));
  return names.length > 2 ? `${names[0]} to ${names.at(-1)} (${names.length})` : names.join(', ');
}

// Returns {classOf(box), legend: [{kind, text}], textOf(box)}.
function heat(weights, text, title) {
  const leaves = [...weights].filter(([box]) => box.kind !== 'program' && box.kind !== 'slice');
  const most = leaves.reduce((a, [, weight]) => Math.max(a, weight), 0);
  // Each colour stands for weights five times those of the colour below it.
  const heatOf = (weight) => (weight <= 0 || most <= 0 ? 0
    : Math.max(0, kHeats - 1 - Math.floor(Math.log(most / weight) / Math.log(5))));
  const legend = [];
  for (let i = kHeats - 1; i >= 0; --i) {
    legend.push({ kind: `heat${i}`, text: i > 0 ? `from ${text(most / 5 ** (kHeats - i))}` : 'less' });
  }
  return {
    title, legend, weights,
    classOf: (box) => `heat${heatOf(weights.get(box))}`,
    textOf: (box) => text(weights.get(box)),
  };
}

function sets(names, title) {
  const all = [...new Set(names.values())].filter((name) => name !== undefined).sort();
  const kinds = new Map(all.map((name, i) => [name, `set${i % kSets}`]));
  return {
    title, names,
    legend: [...all.slice(0, kLegend).map((name) => ({ kind: kinds.get(name), text: shown(name) })),
      ...(all.length > kLegend ? [{ kind: '', text: `and ${all.length - kLegend} more` }] : [])],
    classOf: (box) => kinds.get(names.get(box)) ?? '',
    textOf: (box) => shown(names.get(box) ?? 'several'),
  };
}

// Returns the outermost scope of an op, parameter or group in a function; undefined: none.
export function outermostScope(box) {
  let scope;
  for (let at = box; at && at.kind !== 'node'; at = at.parent) {
    if (at.kind === 'scope') scope = at.label;
  }
  return scope;
}

// Returns the class of the colour of each outermost scope.
export function scopeKinds(model) {
  const names = new Set();
  for (const box of model.boxes) {
    if (box.kind === 'op') names.add(outermostScope(box));
  }
  names.delete(undefined);
  return new Map([...names].sort().map((name, i) => [name, `set${i % kSets}`]));
}

function scopesOfBoxes(model) {
  const known = scopeKinds(model);
  const names = new Map();
  for (const box of model.boxes) {
    const scope = outermostScope(box);
    if (known.has(scope)) names.set(box, scope);
  }
  return names;
}

// Adds up the time of all devices in the timeline: `weights` for each box, and `made` for each
// group, the part of its time that no box in it has, since the compiler made the op.
function measuredTimes(model, timeline, places) {
  const own = new Map();
  const made = new Map();
  const add = (times, box, seconds) => times.set(box, (times.get(box) ?? 0) + seconds);
  const found = timeline.places.map((place) => {
    const boxes = places.boxesOf(place);
    return { boxes, isOwn: boxes.length > 0 && places.isOwn(boxes[0], place) };
  });
  for (const [row, , length, , , place] of timeline.spans) {
    if (timeline.rows[row].kind !== 'device' || place === null) continue;
    const { boxes, isOwn } = found[place];
    for (const box of boxes) {
      const seconds = length / 1e6 / boxes.length;
      add(own, box, seconds);
      if (!isOwn) add(made, box, seconds);
    }
  }
  const weights = new Map();
  for (const box of model.boxes.toReversed()) {
    let weight = own.get(box) ?? 0;
    for (const child of box.children) weight += weights.get(child);
    weights.set(box, weight);
  }
  return { weights, made };
}

export const kMeasured = 'Time in the timeline';

export function measured(model, timeline, places) {
  return () => {
    const { weights, made } = measuredTimes(model, timeline, places);
    const text = (box) => (made.has(box)
      ? `, ${secondsText(made.get(box))} of it of ops that the compiler made here` : '');
    const colours = heat(weights, secondsText, 'time of all devices in the timeline');
    return { ...colours, made, textOf: (box) => colours.textOf(box) + text(box) };
  };
}

// Returns a function for each overlay's name that creates it. Overlays for which the document lacks
// data are left out.
export function makers(model, timeline, places) {
  const { program, plan, layout } = model;
  const all = new Map();
  all.set('Slice', () => sets(setsOf(model, (node) => program.slices[node.slice].name), 'slice'));
  if (plan) {
    all.set('Device',
      () => sets(setsOf(model, (node) => devicesOfSlice(plan, node.slice)), 'devices'));
  }
  all.set('Scope', () => sets(scopesOfBoxes(model), 'scope'));
  if (timeline) all.set(kMeasured, measured(model, timeline, places));
  all.set('Memory', () => heat(bytesOf(model), bytesText, 'bytes of results'));
  if (!layout) return all;
  all.set('Time', () => heat(timesOf(model), secondsText, 'modelled time of a device'));
  all.set('Critical path', () => {
    const times = timesOf(model);
    const critical = criticalBoxes(model, times);
    return {
      title: 'critical path', critical,
      legend: [{ kind: 'heat4', text: 'on the longest way' }, { kind: 'heat0', text: 'beside it' }],
      classOf: (box) => (critical.has(box) ? 'heat4' : 'heat0'),
      textOf: (box) => (critical.has(box) ? `yes, ${secondsText(times.get(box))}` : 'no'),
    };
  });
  return all;
}
