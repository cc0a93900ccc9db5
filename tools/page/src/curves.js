// The panel "Curves": the loss and the speed of each training over its steps, and what they were at
// the step that the pointer or the arrows are at.
import { shown } from './model.js';
import { drawSeries, numberText } from './series.js';

const kCurvesTab = 'Curves';
const kPage = 0.1; // Of all steps, for Page Up and Page Down.

export class Curves {
  constructor(panels, curves) {
    this.panels = panels;
    this.step = null;
    this.curves = curves;
    this.bySteps = curves.map(({ points }) => new Map(points.map((point) => [point.step, point])));
    const all = new Set(curves.flatMap(({ points }) => points.map(({ step }) => step)));
    this.steps = [...all].sort((a, b) => a - b);
    panels.add(kCurvesTab, (room) => this.draw(room));
    window.addEventListener('resize', () => panels.refresh(kCurvesTab));
  }

  draw(room) {
    const charts = document.createElement('div');
    charts.className = 'curves';
    charts.tabIndex = 0;
    charts.setAttribute('role', 'group');
    charts.setAttribute('aria-label',
      'Loss and speed: arrows go from step to step, Home and End to the first and the last');
    this.said = document.createElement('p');
    this.said.className = 'said-at-step';
    this.said.setAttribute('aria-live', 'polite');
    room.append(this.said, charts);
    this.pictures = [this.chart(charts, 'Loss', '', 'loss'),
      this.chart(charts, 'Speed', 'tokens/s', 'tokens_per_s')].filter((svg) => svg);
    this.markers = this.pictures.map((svg) => {
      const marker = document.createElementNS(svg.namespaceURI, 'path');
      marker.setAttribute('class', 'marker');
      svg.append(marker);
      svg.addEventListener('pointermove', (event) => this.goToPointer(svg, event.clientX));
      return marker;
    });
    charts.addEventListener('keydown', (event) => this.goByKey(event));
    this.say();
  }

  // Its picture; null where there is no number to draw.
  chart(charts, title, unit, field) {
    const room = document.createElement('div');
    charts.append(room);
    const lines = this.curves.map(({ name, points }) => (
      { name, points: points.map((point) => [point.step, point[field]]) }));
    return drawSeries(room, { title, unit, lines }).querySelector('svg.chart');
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
    const at = this.step === null ? last : this.steps.findIndex((step) => step >= this.step);
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
    if (this.step === null) {
      this.said.textContent = 'Point at a step, or go to one with the arrows.';
      return;
    }
    const parts = this.curves.map(({ name }, i) => {
      const point = this.bySteps[i].get(this.step);
      if (!point) return null;
      return `${shown(name)} loss ${numberText(point.loss ?? NaN)}, `
        + `${numberText(point.tokens_per_s ?? NaN)} tokens/s`;
    });
    this.said.textContent = `Step ${this.step}: ${parts.filter((part) => part).join('; ')}`;
    this.pictures.forEach((svg, i) => {
      const { toX, top, bottom } = svg.scales;
      this.markers[i].setAttribute('d', `M${toX(this.step).toFixed(1)} ${top}V${bottom}`);
    });
  }
}
