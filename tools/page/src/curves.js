// Losses and speeds of trainings over their steps, and what they were at the step that the pointer or
// the arrows are at: for the panel "Curves" of a page with such trainings, and for that of a cluster.
import { shown } from './model.js';
import { whenResized } from './resized.js';
import { drawSeries, madeOf, numberText, svgOf } from './series.js';

const kCurvesTab = 'Curves';
const kPage = 0.1; // Of all steps, for Page Up and Page Down.

export class CurveCharts {
  // redraw(): when the room for them is another.
  constructor(redraw) {
    this.redraw = redraw;
    this.step = null;
    this.read([]);
  }

  // curves: [{name, points: [{step, loss, tokens_per_s}], colour}], steps rise; colour may be absent.
  read(curves) {
    this.curves = curves;
    this.bySteps = curves.map(({ points }) => new Map(points.map((point) => [point.step, point])));
    const all = new Set(curves.flatMap(({ points }) => points.map(({ step }) => step)));
    this.steps = [...all].filter(Number.isFinite).sort((a, b) => a - b);
  }

  // others: charts of series.js that stand beside.
  draw(room, others = []) {
    const charts = madeOf('div', 'curves');
    charts.tabIndex = 0;
    charts.dataset.key = 'curves';
    charts.setAttribute('role', 'group');
    charts.setAttribute('aria-label',
      'Loss and speed: arrows go from step to step, Home and End to the first and the last');
    this.said = madeOf('p', 'said-at-step');
    this.said.setAttribute('aria-live', 'polite');
    room.append(this.said, charts);
    const all = [this.chartOf('Loss', '', 'loss'),
      this.chartOf('Speed', 'tokens/s', 'tokens_per_s'), ...others];
    charts.append(...all.map(() => madeOf('div', ''))); // All of them, so that each has its width.
    const pictures = all.map((chart, i) => (
      drawSeries(charts.children[i], chart).querySelector('svg.chart')));
    this.pictures = pictures.slice(0, 2).filter((svg) => svg); // None where there is no number.
    this.markers = this.pictures.map((svg) => {
      const marker = svgOf('path', { class: 'marker' });
      svg.append(marker);
      svg.addEventListener('pointermove', (event) => this.goToPointer(svg, event.clientX));
      return marker;
    });
    charts.addEventListener('keydown', (event) => this.goByKey(event));
    this.followWidth(charts);
    this.say();
  }

  followWidth(charts) {
    const before = charts.clientWidth;
    whenResized(charts, () => {
      if (charts.clientWidth !== before) this.redraw();
    });
  }

  chartOf(title, unit, field) {
    const lines = this.curves.map(({ name, points }) => (
      { name, points: points.map((point) => [point.step, point[field]]) }));
    return { title, unit, lines, colours: this.curves.map(({ colour }, i) => colour ?? i) };
  }

  goToPointer(svg, clientX) {
    const { toX } = svg.scales;
    const x = clientX - svg.getBoundingClientRect().left;
    let [low, high] = [0, this.steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (toX(this.steps[middle]) < x) low = middle + 1;
      else high = middle;
    }
    const before = this.steps[Math.max(0, low - 1)];
    this.goTo(x - toX(before) < toX(this.steps[low]) - x ? before : this.steps[low]);
  }

  goByKey(event) {
    if (this.steps.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.steps.length - 1;
    const page = Math.max(1, Math.round(last * kPage));
    const found = this.steps.findIndex((step) => step >= this.step);
    const at = this.step === null || found < 0 ? last : found;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageDown: at - page, PageUp: at + page,
      Home: 0, End: last }[event.key];
    if (to === undefined) return;
    this.goTo(this.steps[Math.min(last, Math.max(0, to))]);
    event.preventDefault();
  }

  goTo(step) {
    this.step = step;
    this.say();
  }

  // A line of what is known of the step, and where it is in the pictures.
  say() {
    const parts = this.curves.map(({ name }, i) => {
      const point = this.bySteps[i].get(this.step);
      if (!point) return null;
      return `${shown(name)} loss ${numberText(point.loss ?? NaN)}, `
        + `${numberText(point.tokens_per_s ?? NaN)} tokens/s`;
    }).filter((part) => part);
    if (this.step === null || parts.length === 0) { // Or what was said of it has been forgotten.
      this.said.textContent = 'Point at a step, or go to one with the arrows.';
      return;
    }
    this.said.textContent = `Step ${this.step}: ${parts.join('; ')}`;
    this.pictures.forEach((svg, i) => {
      const { toX, top, bottom } = svg.scales;
      this.markers[i].setAttribute('d', `M${toX(this.step).toFixed(1)} ${top}V${bottom}`);
    });
  }
}

// The panel of a page with trainings. Returns its charts.
export function addCurvesPanel(panels, curves) {
  const charts = new CurveCharts(() => panels.refresh(kCurvesTab));
  charts.read(curves);
  panels.add(kCurvesTab, (room) => charts.draw(room));
  return charts;
}
