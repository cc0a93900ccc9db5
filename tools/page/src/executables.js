// The executables of a running cluster's programs, and the one of them that the page shows.
import { nameOf } from './cluster_text.js';
import { shown } from './model.js';

// Returns the program's executable with that plan, else its last one of that name, else its last.
export function executableOf(executables, { id, plan, name }) {
  const all = executables.filter((one) => one.id === id);
  return all.find((one) => one.plan === plan) ?? all.findLast((one) => one.name === name)
    ?? all.at(-1);
}

// Returns the executable that is chosen, or the first of all if nothing is chosen; null if the
// chosen program has ended.
export function nextShown(executables, chosen) {
  return executableOf(executables, chosen ?? {}) ?? (chosen ? null : executables[0]);
}

// Returns {options, at}: [value, text] of each choice, and the value of the executable drawn.
export function choicesOf(executables, programs, drawn) {
  const options = executables.slice(0, 100).map(({ id, plan, name }) => {
    const program = nameOf(programs.get(id) ?? { id });
    return [`${id} ${plan}`, shown(program === name ? name : `${program}: ${name}`)];
  });
  const at = drawn ? `${drawn.id} ${drawn.plan}` : '';
  if (!options.some(([value]) => value === at)) {
    options.unshift([at, drawn ? `${shown(drawn.name)} (ended)` : 'no program runs']);
  }
  return { options, at };
}
