// The panel of a running cluster: who holds which device, its programs, their curves and shares. It
// shows what /api/cluster and /api/history say (docs/page_document.md), a page of rows at a time.
import { CurveCharts } from './curves.js';
import { shown } from './model.js';
import { kColours, madeOf, numberText, svgOf } from './series.js';
import { bytesText } from './units.js';

const kHostRows = 6;
const kProgramRows = 8;
const kCurves = 6; // Programs in one chart.
const kDevicesDrawn = 256; // Of one host.
const kSide = 14; // Pixels of a device's square, with the gap behind it.

export class Cluster {
  // choose(id): shows the graph of the program.
  constructor(choose, redraw) {
    this.choose = choose;
    this.redraw = redraw;
    this.now = null;
    this.curves = new Map(); // By program's id: {name, points, ended}.
    this.colours = new Map(); // By the id of a program that is known.
    this.charts = new CurveCharts(redraw);
    this.pages = { hosts: 0, programs: 0 };
  }

  colourOf(id) {
    if (!this.colours.has(id)) {
      const taken = new Set(this.colours.values());
      let free = 0;
      while (taken.has(free)) ++free;
      this.colours.set(id, free);
    }
    return this.colours.get(id);
  }

  setNow(now) {
    this.now = now;
    this.programs = new Map(now.programs.map((program) => [program.id, program]));
    for (const id of this.colours.keys()) {
      if (!this.programs.has(id) && !this.curves.has(id)) this.colours.delete(id);
    }
    this.heldBy = new Map(); // By host: by device: who holds it.
    for (const { host, device, id } of now.held) {
      if (!this.heldBy.has(host)) this.heldBy.set(host, new Map());
      const devices = this.heldBy.get(host);
      devices.set(device, [...(devices.get(device) ?? []), id]);
    }
  }

  // Points behind those that are known; programs that the controller has forgotten go.
  addHistory(history) {
    const known = new Set(history.programs.map((program) => program.id));
    for (const id of this.curves.keys()) if (!known.has(id)) this.curves.delete(id);
    for (const { id, program, owner, ended, points } of history.programs) {
      const curve = this.curves.get(id) ?? { points: [] };
      let all = curve.points.concat(points);
      if (all.length > 1024) all = all.filter((point, i) => i % 2 === 0);
      this.curves.set(id, { name: nameOf({ id, program, owner }), ended, points: all });
    }
  }

  forget() {
    this.now = null;
    this.curves.clear();
  }

  draw(room) {
    if (!this.now) {
      room.append(madeOf('p', '', 'the controller has not answered yet'));
      return;
    }
    const { hosts, programs } = this.now;
    const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
    const running = programs.filter((program) => program.devices > 0);
    room.append(madeOf('p', 'summary', `${counted(hosts.length, 'host')}, `
      + `${counted(devices, 'device')}, ${counted(running.length, 'program')} on them`));
    const parts = madeOf('div', 'cluster');
    room.append(parts);
    parts.append(this.hostsPart(hosts), this.programsPart(programs));
    this.drawCurves(room);
  }

  hostsPart(hosts) {
    const part = madeOf('section', '');
    part.append(madeOf('h3', '', 'Hosts'));
    if (hosts.length === 0) part.append(madeOf('p', '', 'no host has come yet'));
    const sorted = hosts.toSorted((a, b) => compare(a.island, b.island) || compare(a.host, b.host));
    let island = null;
    for (const host of this.pageOf('hosts', sorted, kHostRows, part)) {
      if (host.island !== island) part.append(madeOf('h4', '', `island ${shown(host.island)}`));
      island = host.island;
      part.append(this.hostPart(host));
    }
    return part;
  }

  hostPart(host) {
    const part = madeOf('div', 'host');
    part.append(madeOf('b', '', shown(host.host)));
    part.append(madeOf('span', '', `${host.devices} ${shown(host.kind)}, of the fullest `
      + `${bytesText(host.memory_used)} of ${bytesText(host.memory_bytes)} used${stateOf(host)}`));
    const held = this.heldBy.get(host.host) ?? new Map();
    part.append(this.devicesPicture(Math.min(host.devices, kDevicesDrawn), held));
    part.append(madeOf('span', 'holders', this.holdersText(host.devices, held)));
    return part;
  }

  // A square for each device, in the colours of who holds it.
  devicesPicture(count, held) {
    const perRow = 32;
    const [width, height] = [Math.min(count, perRow) * kSide, Math.ceil(count / perRow) * kSide];
    const svg = svgOf('svg', { width, height, viewBox: `0 0 ${width} ${height}`,
      'aria-hidden': 'true' });
    const paths = new Map();
    for (let device = 0; device < count; ++device) {
      const [x, y] = [(device % perRow) * kSide, Math.floor(device / perRow) * kSide];
      const holders = held.get(device) ?? [];
      const kinds = holders.slice(0, 4).map((id) => `colour${this.colourOf(id) % kColours}`);
      if (kinds.length === 0) kinds.push('free');
      const part = (kSide - 2) / kinds.length;
      kinds.forEach((kind, i) => paths.set(kind, `${paths.get(kind) ?? ''}M${x + 1 + i * part} `
        + `${y + 1}h${part}v${kSide - 3}h${-part}z`));
    }
    for (const [kind, d] of paths) svg.append(svgOf('path', { class: `device ${kind}`, d }));
    return svg;
  }

  // "0-1 trainer, 2-3 free"
  holdersText(count, held) {
    const parts = [];
    for (let first = 0; first < count;) {
      const names = this.holderNames(held.get(first));
      let last = first;
      while (last + 1 < count && this.holderNames(held.get(last + 1)) === names) ++last;
      parts.push(`${first === last ? first : `${first}-${last}`} ${names}`);
      first = last + 1;
    }
    return parts.slice(0, 16).join(', ') + (parts.length > 16 ? ', \u2026' : '');
  }

  holderNames(ids) {
    if (!ids) return 'free';
    return ids.slice(0, 4).map((id) => shown(nameOf(this.programs.get(id) ?? { id }))).join(' + ');
  }

  programsPart(programs) {
    const part = madeOf('section', '');
    part.append(madeOf('h3', '', 'Programs'));
    if (programs.length === 0) {
      part.append(madeOf('p', '', 'no program runs'));
      return part;
    }
    const page = this.pageOf('programs', programs, kProgramRows, part);
    const table = madeOf('table', '');
    const head = madeOf('tr', '');
    for (const title of ['Program', 'Owner', 'Step', 'Loss', 'Tokens/s', 'Used', 'Memory',
      'Devices', 'Runs', 'State']) {
      const cell = madeOf('th', '', title);
      cell.scope = 'col';
      head.append(cell);
    }
    table.append(head, ...page.map((program) => this.programRow(program)));
    part.append(table);
    return part;
  }

  programRow(program) {
    const row = madeOf('tr', '');
    const name = madeOf('td', `holder colour${this.colourOf(program.id) % kColours}`);
    const button = madeOf('button', '', shown(nameOf(program)));
    button.type = 'button';
    button.dataset.key = `program ${program.id}`;
    button.title = 'Shows its graph';
    button.addEventListener('click', () => this.choose(program.id));
    name.append(button);
    row.append(name);
    const runs = `${program.runs_done} done, ${program.runs_in_flight} in flight, `
      + `${program.runs_waiting} waiting`;
    const state = [program.suspended ? 'suspended' : '', program.detached ? 'detached' : '',
      program.waits_for ? `waits for ${program.waits_for}` : ''].filter(Boolean).join(', ');
    for (const text of [program.owner, numberText(program.step), numberText(program.loss),
      numberText(program.tokens_per_s), `${(100 * program.used).toFixed(1)}%`,
      bytesText(program.memory_bytes), program.devices, runs, state || 'runs']) {
      row.append(madeOf('td', '', shown(text)));
    }
    return row;
  }

  // So many of them, and buttons for the others.
  pageOf(name, all, rows, part) {
    const last = Math.max(0, Math.ceil(all.length / rows) - 1);
    const at = Math.min(this.pages[name], last);
    if (last > 0) {
      const bar = madeOf('div', 'pages',
        `${at * rows + 1}-${Math.min(all.length, (at + 1) * rows)} of ${all.length} `);
      for (const [label, to] of [['before', at - 1], ['next', at + 1]]) {
        const button = madeOf('button', '', label);
        button.type = 'button';
        button.disabled = to < 0 || to > last;
        button.dataset.key = `${name} ${label}`;
        button.setAttribute('aria-label', `${name}: ${label}`);
        button.addEventListener('click', () => {
          this.pages[name] = to;
          this.redraw();
        });
        bar.append(button);
      }
      part.append(bar);
    }
    return all.slice(at * rows, (at + 1) * rows);
  }

  drawCurves(room) {
    const all = [...this.curves].filter(([, curve]) => curve.points.length > 0)
      .toSorted(([, a], [, b]) => a.ended - b.ended || b.points.at(-1)[0] - a.points.at(-1)[0])
      .slice(0, kCurves).toSorted(([a], [b]) => a - b);
    if (all.length === 0) {
      room.append(madeOf('p', '', 'no program has run yet'));
      return;
    }
    const named = all.map(([id, { name, ended, points }]) => (
      { name: ended ? `${name} (ended)` : name, points, colour: this.colourOf(id) }));
    this.charts.read(named.map(({ name, points, colour }) => ({ name, colour,
      points: points.filter(([, , step]) => step !== null)
        .map(([, , step, loss, speed]) => ({ step, loss, tokens_per_s: speed })) })));
    const shares = { title: 'Share of all devices', xName: 'time', unit: '%', stacked: true,
      lines: named.map(({ name, points }) => (
        { name, points: points.map(([, time, , , , share]) => [time, 100 * share]) })),
      colours: named.map(({ colour }) => colour) };
    this.charts.draw(room, [shares]);
  }
}

function compare(a, b) { return a < b ? -1 : Number(a > b); }

function counted(count, what) { return `${count} ${what}${count === 1 ? '' : 's'}`; }

// Programs of other owners have none that may be seen.
export function nameOf({ id, program, owner }) {
  if (program) return program;
  return owner ? `one of ${owner}` : `program ${id}`;
}

function stateOf(host) {
  const state = [];
  if (host.drained || host.draining) state.push(host.drained ? 'drained' : 'draining');
  if (host.suspect_ms > 0) state.push(`silent for ${(host.suspect_ms / 1000).toFixed(1)} s`);
  if (host.stuck) state.push(`stuck: ${shown(host.stuck)}`);
  return state.length > 0 ? `, ${state.join(', ')}` : '';
}
