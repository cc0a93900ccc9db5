// The newest state of a running cluster that the controller reported, and its programs' curves.
import { counted, nameOf } from './cluster_text.js';
import { shown } from './model.js';

const kCurves = 6; // Programs in one chart.

export class ClusterState {
  constructor() {
    this.now = null;
    this.curves = new Map(); // {name, points, ended} by the id of a program.
    this.colours = new Map(); // A colour for each id of a known program.
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
    this.heldBy = new Map(); // The holder of each device, by host.
    for (const { host, device, id } of now.held) {
      if (!this.heldBy.has(host)) this.heldBy.set(host, new Map());
      const devices = this.heldBy.get(host);
      devices.set(device, [...(devices.get(device) ?? []), id]);
    }
  }

  // Adds the points that are new. Removes programs that the controller has forgotten.
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

  summary() {
    const { hosts, programs } = this.now;
    const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
    const running = programs.filter((program) => program.devices > 0);
    return `${counted(hosts.length, 'host')}, ${counted(devices, 'device')}, `
      + `${counted(running.length, 'program')} on them`;
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

  // The curves that are drawn, in the order of their programs' ids: those of programs that run come
  // before ended ones, and newer ones before older ones, until there are kCurves.
  namedCurves() {
    const all = [...this.curves].filter(([, curve]) => curve.points.length > 0)
      .toSorted(([, a], [, b]) => a.ended - b.ended || b.points.at(-1)[0] - a.points.at(-1)[0])
      .slice(0, kCurves).toSorted(([a], [b]) => a - b);
    return all.map(([id, { name, ended, points }]) => (
      { name: ended ? `${name} (ended)` : name, points, colour: this.colourOf(id) }));
  }
}
