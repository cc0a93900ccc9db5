// The executables of a running cluster's programs, and the one of them that the page shows.
import { nameOf } from './cluster_text.js';
import { shown } from './model.js';

// The executable of that program with that plan, or its last one of that name, or its last one.
export function executableOf(executables, { id, plan, name }) {
  const all = executables.filter((one) => one.id === id);
  return all.find((one) => one.plan === plan) ?? all.findLast((one) => one.name === name)
    ?? all.at(-1);
}

// The executable that is chosen, or the first of all where nothing is chosen; null where the program
// that is chosen has ended.
export function nextShown(executables, chosen) {
  return executableOf(executables, chosen ?? {}) ?? (chosen ? null : executables[0]);
}

// {options, at}: [value, text] of each choice, and the value of what is drawn.
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
