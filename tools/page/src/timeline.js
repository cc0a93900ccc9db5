// The panel "Timeline": the work of devices in the last runs, a row each. Spans have the colours of
// the overlay, or those of their scopes; a span and its box select each other. Empty parts are
// idle.
import { outermostScope, scopeKinds } from './overlay_colours.js';
import { whenResized } from './resized.js';
import { firstEndingAfter, rowText, rowsOf, spanAt, spanText, wholeText } from './timeline_rows.js';

const kSpanRow = 20; // Pixels.

export class Timeline {
  constructor(panels, view, places, timeline) {
    Object.assign(this, { view, places });
    this.kinds = scopeKinds(view.model);
    this.read(timeline);
    view.whenSelected.push((box) => this.follow(box));
    panels.add('Timeline', (room) => this.draw(room));
  }

  // Shows another timeline from its begin to its end.
  update(timeline) {
    this.read(timeline);
    if (!this.canvas?.isConnected) return;
    this.fillNames();
    this.follow(this.view.selected);
  }

  read(timeline) {
    this.timeline = timeline;
    Object.assign(this, rowsOf(timeline)); // rows, end
    this.boxes = timeline.places.map((place) => this.places.boxOf(place));
    this.from = 0;
    this.to = this.end;
    this.selected = null;
  }

  draw(room) {
    this.said = document.createElement('p');
    this.said.className = 'span';
    this.said.setAttribute('aria-live', 'polite');
    this.names = document.createElement('ul');
    this.names.className = 'rows';
    this.fillNames();
    this.canvas = document.createElement('canvas');
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', 'Timeline: arrows go from span to span, Enter shows its '
      + 'box, + and - zoom, 0 shows all');
    const both = document.createElement('div');
    both.className = 'timeline';
    both.append(this.names, this.canvas);
    room.append(this.said, both);
    this.listen();
    this.say();
    this.paint();
  }

  fillNames() {
    this.names.replaceChildren(...this.rows.map((row) => {
      const item = document.createElement('li');
      item.textContent = rowText(row);
      return item;
    }));
  }

  say() {
    const { selected, timeline, rows } = this;
    this.said.textContent = selected === null ? wholeText(timeline, this)
      : spanText(timeline, rows, selected);
  }

  paint() {
    if (!this.canvas?.isConnected) return;
    const { canvas } = this;
    canvas.width = canvas.clientWidth;
    canvas.height = this.rows.length * kSpanRow;
    const pen = canvas.getContext('2d');
    const style = getComputedStyle(document.documentElement);
    const colours = new Map();
    const colourOf = (name) => {
      if (!colours.has(name)) colours.set(name, style.getPropertyValue(`--${name}`));
      return colours.get(name);
    };
    pen.lineWidth = 1;
    const scale = canvas.width / (this.to - this.from);
    this.rows.forEach((row, i) => {
      let painted = -1; // The pixel up to which ops are painted.
      for (let at = firstEndingAfter(row.spans, this.from); at < row.spans.length; ++at) {
        const span = row.spans[at];
        if (span.begin > this.to) break;
        const x = (span.begin - this.from) * scale;
        const width = (span.end - span.begin) * scale;
        const isOp = span.place !== null || row.kind === 'collectives';
        if (isOp && x + width < painted) continue; // The pixel has a colour already.
        if (isOp) painted = Math.ceil(x + width);
        const inset = isOp ? 3 : 1;
        pen.fillStyle = colourOf(this.kindOf(span, isOp));
        pen.fillRect(x, i * kSpanRow + inset, Math.max(1, width), kSpanRow - 2 * inset);
        if (width > 4) {
          pen.strokeStyle = colourOf('edge');
          pen.strokeRect(x, i * kSpanRow + inset, width, kSpanRow - 2 * inset);
        }
      }
    });
    if (this.selected !== null) {
      const { row, begin, end } = this.selected;
      pen.strokeStyle = colourOf('chosen');
      pen.lineWidth = 2;
      pen.strokeRect((begin - this.from) * scale, row * kSpanRow + 2,
        Math.max(2, (end - begin) * scale), kSpanRow - 4);
    }
  }

  // Returns the name of a custom property.
  kindOf(span, isOp) {
    const box = this.boxes[span.place];
    if (box && this.view.overlay) return this.view.overlay.classOf(box) || 'button';
    if (box) return this.kinds.get(outermostScope(box)) ?? 'button';
    return isOp ? 'link' : 'open1';
  }

  choose(span) {
    if (!span) return;
    this.whenTouched?.();
    this.selected = span;
    const width = this.to - this.from;
    if (span.begin < this.from || span.begin > this.to) {
      this.from = Math.max(0, Math.min(this.end - width, span.begin - width / 4));
      this.to = this.from + width;
    }
    this.say();
    this.paint();
    const box = this.boxes[span.place];
    if (box) this.view.show(box);
  }

  // Goes to the first span of a box that the user selected.
  follow(box) {
    if (this.selected !== null && this.boxes[this.selected.place] === box) return this.paint();
    const row = this.rows.find(({ kind }) => kind === 'device');
    this.selected = row?.spans.find((span) => this.boxes[span.place] === box) ?? null;
    if (this.canvas?.isConnected) this.say();
    return this.paint();
  }

  zoomTo(factor, middle) {
    const width = Math.min(this.end, Math.max(0.1, (this.to - this.from) * factor));
    this.whenTouched?.();
    const part = (middle - this.from) / (this.to - this.from);
    this.from = Math.max(0, Math.min(this.end - width, middle - part * width));
    this.to = this.from + width;
    this.paint();
  }

  beside(step) {
    const { row } = this.selected ?? { row: 0 };
    const { spans } = this.rows[row];
    const at = this.selected ? spans.indexOf(this.selected) : -1;
    this.choose(spans[Math.max(0, at + step)]);
  }

  other(step) {
    const { row, begin, end } = this.selected ?? { row: -1, begin: this.from, end: this.to };
    const next = Math.max(0, Math.min(this.rows.length - 1, row + step));
    this.choose(spanAt(this.rows[next], (begin + end) / 2) ?? this.rows[next].spans[0]);
  }

  listen() {
    const { canvas } = this;
    const timeOf = (event) => (
      this.from + event.offsetX / canvas.clientWidth * (this.to - this.from));
    let grip = null;
    canvas.addEventListener('pointerdown', (event) => {
      grip = { time: timeOf(event), moved: false };
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!grip || event.buttons !== 1) return;
      const by = grip.time - timeOf(event);
      if (Math.abs(by) * canvas.clientWidth < 3 * (this.to - this.from)) return;
      grip.moved = true;
      this.whenTouched?.();
      const width = this.to - this.from;
      this.from = Math.max(0, Math.min(this.end - width, this.from + by));
      this.to = this.from + width;
      this.paint();
    });
    canvas.addEventListener('pointerup', (event) => {
      const row = Math.floor(event.offsetY / kSpanRow);
      if (grip && !grip.moved && this.rows[row]) this.choose(spanAt(this.rows[row], timeOf(event)));
      grip = null;
    });
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.zoomTo(Math.exp(event.deltaY * 0.0015), timeOf(event));
    }, { passive: false });
    const middle = () => (
      this.selected ? (this.selected.begin + this.selected.end) / 2 : (this.from + this.to) / 2);
    const actions = {
      ArrowRight: () => this.beside(1),
      ArrowLeft: () => this.beside(-1),
      ArrowDown: () => this.other(1),
      ArrowUp: () => this.other(-1),
      '+': () => this.zoomTo(0.7, middle()),
      '-': () => this.zoomTo(1 / 0.7, middle()),
      0: () => this.zoomTo(Infinity, this.from),
    };
    canvas.addEventListener('keydown', (event) => {
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      action();
      event.preventDefault();
    });
    whenResized(canvas.parentElement, () => this.paint());
  }
}
