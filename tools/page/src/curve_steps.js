// The losses and speeds of trainings by step, and the step that the user looks at (null: none yet).
// It finds the step that a key or the pointer means, and the text of a step.
import { shown } from './model.js';
import { numberText } from './units.js';

const kPage = 0.1; // Part of all steps that Page Up and Page Down pass.

export class CurveSteps {
  constructor() {
    this.step = null;
    this.read([]);
  }

  // curves: [{name, points: [{step, loss, tokens_per_s}], colour}]. Steps rise; a colour may lack.
  read(curves) {
    this.curves = curves;
    this.bySteps = curves.map(({ points }) => new Map(points.map((point) => [point.step, point])));
    const all = new Set(curves.flatMap(({ points }) => points.map(({ step }) => step)));
    this.steps = [...all].filter(Number.isFinite).sort((a, b) => a - b);
  }

  chartOf(title, unit, field) {
    const lines = this.curves.map(({ name, points }) => (
      { name, points: points.map((point) => [point.step, point[field]]) }));
    return { title, unit, lines, colours: this.curves.map(({ colour }, i) => colour ?? i) };
  }

  // Returns the step whose place toX(step) is nearest to x.
  nearestTo(x, toX) {
    let [low, high] = [0, this.steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (toX(this.steps[middle]) < x) low = middle + 1;
      else high = middle;
    }
    const before = this.steps[Math.max(0, low - 1)];
    return x - toX(before) < toX(this.steps[low]) - x ? before : this.steps[low];
  }

  // Returns the step to which a key goes; undefined: none.
  stepOfKey(key) {
    if (this.steps.length === 0) return undefined;
    const last = this.steps.length - 1;
    const page = Math.max(1, Math.round(last * kPage));
    const found = this.steps.findIndex((step) => step >= this.step);
    const at = this.step === null || found < 0 ? last : found;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageDown: at - page, PageUp: at + page,
      Home: 0, End: last }[key];
    return to === undefined ? undefined : this.steps[Math.min(last, Math.max(0, to))];
  }

  // Returns the text of the step; null if no training has that step, or has it no longer.
  textOfStep() {
    const parts = this.curves.map(({ name }, i) => {
      const point = this.bySteps[i].get(this.step);
      if (!point) return null;
      return `${shown(name)} loss ${numberText(point.loss ?? NaN)}, `
        + `${numberText(point.tokens_per_s ?? NaN)} tokens/s`;
    }).filter((part) => part);
    return this.step === null || parts.length === 0 ? null
      : `Step ${this.step}: ${parts.join('; ')}`;
  }
}
