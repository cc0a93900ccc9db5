// The panel of a running cluster: the holder of each device, the programs, their curves and shares.
// It shows the answers of /api/cluster and /api/history (docs/page_document.md), a page of rows at
// a time.
import { ClusterState } from './cluster_state.js';
import { cellsOf, hostText, inIslands, nameOf, pageAt, stepsOfSamples } from './cluster_text.js';
import { CurveCharts } from './curves.js';
import { shown } from './model.js';
import { kColours, madeOf, svgOf } from './series.js';

const kHostRows = 6;
const kProgramRows = 8;
const kDevicesDrawn = 256; // Limit on one host's devices.
const kSide = 14; // Pixels of a device's square, with the gap behind it.

export class Cluster extends ClusterState {
  // choose(id): shows the graph of the program.
  constructor(choose, redraw) {
    super();
    this.choose = choose;
    this.redraw = redraw;
    this.charts = new CurveCharts(redraw);
    this.pages = { hosts: 0, programs: 0 };
  }

  draw(room) {
    if (!this.now) {
      room.append(madeOf('p', '', 'the controller has not answered yet'));
      return;
    }
    const { hosts, programs } = this.now;
    room.append(madeOf('p', 'summary', this.summary()));
    const parts = madeOf('div', 'cluster');
    room.append(parts);
    parts.append(this.hostsPart(hosts), this.programsPart(programs));
    this.drawCurves(room);
  }

  hostsPart(hosts) {
    const part = madeOf('section', '');
    part.append(madeOf('h3', '', 'Hosts'));
    if (hosts.length === 0) part.append(madeOf('p', '', 'no host has come yet'));
    const sorted = inIslands(hosts);
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
    part.append(madeOf('span', '', hostText(host)));
    const held = this.heldBy.get(host.host) ?? new Map();
    part.append(this.devicesPicture(Math.min(host.devices, kDevicesDrawn), held));
    part.append(madeOf('span', 'holders', this.holdersText(host.devices, held)));
    return part;
  }

  // A square for each device, in the colour of the program that holds it.
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
    for (const text of cellsOf(program)) row.append(madeOf('td', '', shown(text)));
    return row;
  }

  // Draws `rows` of them at most, and buttons for the others.
  pageOf(name, all, rows, part) {
    const { at, last, some } = pageAt(all, rows, this.pages[name]);
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
    return some;
  }

  drawCurves(room) {
    const named = this.namedCurves();
    if (named.length === 0) {
      room.append(madeOf('p', '', 'no program has run yet'));
      return;
    }
    this.charts.read(stepsOfSamples(named));
    const shares = { title: 'Share of all devices', xName: 'time', unit: '%', stacked: true,
      lines: named.map(({ name, points }) => (
        { name, points: points.map(([, time, , , , share]) => [time, 100 * share]) })),
      colours: named.map(({ colour }) => colour) };
    this.charts.draw(room, [shares]);
  }
}
