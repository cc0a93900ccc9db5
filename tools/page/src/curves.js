// Losses and speeds of trainings over their steps, and their values at the step that the pointer or
// the arrows are at: for the panel "Curves" of a page with trainings, and for that of a cluster.
import { CurveSteps } from './curve_steps.js';
import { whenResized } from './resized.js';
import { drawSeries, madeOf, svgOf } from './series.js';

const kCurvesTab = 'Curves';

export class CurveCharts extends CurveSteps {
  // redraw(): called when their room has changed.
  constructor(redraw) {
    super();
    this.redraw = redraw;
  }

  // others: charts of series.js that are shown beside these.
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
    charts.append(...all.map(() => madeOf('div', ''))); // All at once, so that each has its width.
    const pictures = all.map((chart, i) => (
      drawSeries(charts.children[i], chart).querySelector('svg.chart')));
    this.pictures = pictures.slice(0, 2).filter((svg) => svg); // Without numbers: none.
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

  goToPointer(svg, clientX) {
    this.goTo(this.nearestTo(clientX - svg.getBoundingClientRect().left, svg.scales.toX));
  }

  goByKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = this.stepOfKey(event.key);
    if (step === undefined) return;
    this.goTo(step);
    event.preventDefault();
  }

  goTo(step) {
    this.step = step;
    this.say();
  }

  // Writes a line about the step, and marks its place in the pictures.
  say() {
    const text = this.textOfStep();
    this.said.textContent = text ?? 'Point at a step, or go to one with the arrows.';
    if (text === null) return;
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
