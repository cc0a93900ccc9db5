// The texts that the panel of a cluster shows of its hosts and programs.
import { shown } from './model.js';
import { bytesText, numberText } from './units.js';

// Sorts hosts by island, and by name in each island.
export function inIslands(hosts) {
  return hosts.toSorted((a, b) => compare(a.island, b.island) || compare(a.host, b.host));
}

function compare(a, b) { return a < b ? -1 : Number(a > b); }

export function counted(count, what) { return `${count} ${what}${count === 1 ? '' : 's'}`; }

export function hostText(host) {
  return `${host.devices} ${shown(host.kind)}, of the fullest ${bytesText(host.memory_used)} of `
    + `${bytesText(host.memory_bytes)} used${stateOf(host)}`;
}

// A user may not see the names of other owners' programs.
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

// Returns the cells of a program's row behind its name.
export function cellsOf(program) {
  const runs = `${program.runs_done} done, ${program.runs_in_flight} in flight, `
    + `${program.runs_waiting} waiting`;
  const state = [program.suspended ? 'suspended' : '', program.detached ? 'detached' : '',
    program.waits_for ? `waits for ${program.waits_for}` : ''].filter(Boolean).join(', ');
  return [program.owner, numberText(program.step), numberText(program.loss),
    numberText(program.tokens_per_s), `${(100 * program.used).toFixed(1)}%`,
    bytesText(program.memory_bytes), program.devices, runs, state || 'runs'];
}

// Returns {at, last, some}: the page of that number, or the last one, and its rows.
export function pageAt(all, rows, wanted) {
  const last = Math.max(0, Math.ceil(all.length / rows) - 1);
  const at = Math.min(wanted, last);
  return { at, last, some: all.slice(at * rows, (at + 1) * rows) };
}

// Turns the result of ClusterState.namedCurves() into what CurveSteps.read() takes.
export function stepsOfSamples(named) {
  return named.map(({ name, points, colour }) => ({ name, colour,
    points: points.filter(([, , step]) => step !== null)
      .map(([, , step, loss, speed]) => ({ step, loss, tokens_per_s: speed })) }));
}
