// Draws the boxes that are in view, larger ones first, with at most kElements elements at once.
// Pans and zooms. Elements are kept from one drawing to the next.
import { carriedText } from './details_text.js';
import { boxesIn, lineKindOf, meets } from './in_view.js';
import { kHeader, layOut, placeOf } from './layout.js';
import { whenResized } from './resized.js';

const kElements = 2400;
const kElementsOfAll = 2900; // Limit for the whole page, with panels and details.
const kElementsOfLinks = 50; // Limit for the links of the selected box.
const kFont = '12px monospace';
const kSmallestText = 7; // A smaller one cannot be read.
const kSelectedLinks = 200;
const kCarried = 40; // Limit on the selected box's links that show their bytes.

export class View {
  constructor(model, svg) {
    this.model = model;
    this.svg = svg;
    this.scene = this.element('g', 'scene');
    svg.append(this.scene);
    this.canvas = document.createElement('canvas').getContext('2d');
    this.canvas.font = kFont;
    this.letter = this.canvas.measureText('m').width; // All letters of ASCII are as wide.
    this.dots = this.canvas.measureText('\u2026').width;
    this.widths = new Map();
    this.drawn = new Map(); // The elements of each box.
    this.spare = []; // Elements of boxes that have left the view, for boxes that enter it.
    this.lines = new Map(); // Keyed by group and kind.
    this.selected = model.root;
    this.whenSelected = [];
    this.whenDrawn = [];
    this.overlay = null; // overlays.js
    this.layouts = 0; // How often boxes were placed.
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.waiting = false;
    this.listen();
    whenResized(svg, () => this.soon());
  }

  element(name, kind) {
    const made = document.createElementNS(this.svg.namespaceURI, name);
    made.setAttribute('class', kind);
    return made;
  }

  measure(text) {
    if (isAscii(text)) return text.length * this.letter;
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.canvas.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // Returns as much of the text as fits.
  fitted(text, width) {
    if (this.measure(text) <= width) return text;
    if (isAscii(text)) {
      return `${text.slice(0, Math.max(0, Math.floor((width - this.dots) / this.letter)))}\u2026`;
    }
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.canvas.measureText(`${text.slice(0, middle)}\u2026`).width <= width) low = middle;
      else high = middle - 1;
    }
    return `${text.slice(0, low)}\u2026`;
  }

  // Called when boxes were opened or closed.
  update() {
    this.layOut();
    this.draw();
  }

  layOut() {
    ++this.layouts;
    layOut(this.model.root, (text) => this.measure(text));
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    this.window = {
      left: -this.x / this.scale, top: -this.y / this.scale,
      right: (width - this.x) / this.scale, bottom: (height - this.y) / this.scale,
    };
    const places = this.boxesInView();
    for (const [box, made] of this.drawn) {
      if (places.has(box)) continue;
      this.drawn.delete(box);
      this.spare.push(made);
    }
    this.spare.reverse(); // In the order of the picture, so that few of them change places in it.
    const order = [];
    for (const [box, place] of places) {
      if (box.parent && places.has(box.parent)) continue;
      this.collect(box, place, places, order);
    }
    order.push(...this.linksOfSelected(places));
    this.spare.length = Math.min(this.spare.length, kElements);
    this.putInOrder(order);
    set(this.scene, 'transform', `translate(${this.x} ${this.y}) scale(${this.scale})`);
    for (const done of this.whenDrawn) done();
  }

  // Elements that stay where they are cost the browser nothing.
  putInOrder(order) {
    const { scene } = this;
    const wanted = new Set(order);
    for (const element of [...scene.children]) if (!wanted.has(element)) element.remove();
    for (const [key, path] of this.lines) if (!wanted.has(path)) this.lines.delete(key);
    let at = scene.firstChild;
    for (const element of order) {
      if (element === at) at = at.nextSibling;
      else scene.insertBefore(element, at);
    }
  }

  hasText() { return 12 * this.scale >= kSmallestText; }

  boxesInView() {
    const outside = document.getElementsByTagName('*').length - this.scene.childElementCount;
    const most = Math.min(kElements, kElementsOfAll - kElementsOfLinks - outside);
    const each = this.hasText() ? 2 : 1;
    return boxesIn(this.window, this.model.root, this.scale, { each, most });
  }

  // Draws a group's box, then its links, then the boxes in it.
  collect(box, place, places, order) {
    const stack = [[box, place]];
    while (stack.length > 0) {
      const [at, where] = stack.pop();
      this.drawBox(at, where, order);
      if (!at.expanded) continue;
      this.drawSides(at, places, order);
      for (const child of at.children) {
        const inside = places.get(child);
        if (inside) stack.push([child, inside]);
      }
    }
  }

  drawBox(box, place, order) {
    let made = this.drawn.get(box);
    if (!made) {
      made = this.spare.pop()
        ?? { rect: this.element('rect', ''), text: this.element('text', 'label') };
      set(made.rect, 'data-box', box.id);
      this.drawn.set(box, made);
    }
    const open = box.expanded ? ' open' : '';
    const selected = box === this.selected ? ' selected' : '';
    const over = box.expanded || !this.overlay ? '' : ` ${this.overlay.classOf(box)}`;
    set(made.rect, 'class', `box ${box.kind}${open}${over}${selected} deep${box.depth % 2}`);
    set(made.rect, 'x', place.x);
    set(made.rect, 'y', place.y);
    set(made.rect, 'width', box.width);
    set(made.rect, 'height', box.height);
    order.push(made.rect);
    if (!this.hasText()) return;
    const sign = this.model.isGroup(box) ? (box.expanded ? '\u25be ' : '\u25b8 ') : '';
    const key = `${box.id} ${box.width} ${sign}`;
    if (made.key !== key) {
      const text = this.fitted(sign + box.label, box.width - 14);
      if (made.words !== text) made.text.textContent = text;
      Object.assign(made, { key, words: text });
    }
    set(made.text, 'data-box', box.id);
    set(made.text, 'x', place.x + 7);
    set(made.text, 'y', place.y + kHeader / 2 + 4);
    order.push(made.text);
  }

  drawSides(group, places, order) {
    const lines = new Map();
    const origin = places.get(group);
    for (const side of group.sides) {
      if (!places.has(side.from) && !places.has(side.to)) continue;
      const from = { x: origin.x + side.from.x, y: origin.y + side.from.y };
      const to = { x: origin.x + side.to.x, y: origin.y + side.to.y };
      const kind = lineKindOf(side);
      if (!lines.has(kind)) lines.set(kind, []);
      lines.get(kind).push(curve(side.from, from, side.to, to));
    }
    for (const [kind, parts] of lines) {
      const key = `${group.id} ${kind}`;
      if (!this.lines.has(key)) this.lines.set(key, this.element('path', kind));
      const path = this.lines.get(key);
      set(path, 'd', parts.join(''));
      order.push(path);
    }
  }

  // Returns the links of the selected box, as exact as the open groups allow, with the bytes that
  // they carry if there is room.
  linksOfSelected(places) {
    const { incoming, outgoing } = this.selected;
    const found = new Map();
    for (const link of [...incoming, ...outgoing].slice(0, kSelectedLinks)) {
      const [from, to] = [this.visible(link.from), this.visible(link.to)];
      if (from === to) continue;
      const key = `${from.id} ${to.id}`;
      if (!found.has(key)) found.set(key, { from, to, bytes: 0, moves: [] });
      found.get(key).bytes += link.bytes;
      found.get(key).moves.push(...link.moves);
    }
    if (found.size === 0) return [];
    const path = this.element('path', 'chosen');
    path.setAttribute('d', [...found.values()].map(({ from, to }) => (
      curve(from, placeOf(from), to, placeOf(to)))).join(''));
    return [path, ...this.carriedBy([...found.values()], places)];
  }

  carriedBy(links, places) {
    if (!this.hasText()) return [];
    const taken = [];
    for (const [box, { x, y }] of places) {
      taken.push({ x, y, width: box.width, height: box.expanded ? kHeader : box.height });
    }
    const texts = [];
    for (const { from, to, bytes, moves } of links.slice(0, kCarried)) {
      const what = carriedText(bytes, moves);
      const width = this.measure(what);
      const [start, end] = [placeOf(from), placeOf(to)];
      for (const part of [0.5, 0.3, 0.7]) {
        const x = start.x + from.width + (end.x - start.x - from.width) * part - width / 2;
        const y = start.y + 13 + (end.y - start.y) * part - 14;
        const room = { x: x - 2, y, width: width + 4, height: 16 };
        if (taken.some((other) => meets(room, other))) continue;
        taken.push(room);
        const text = this.element('text', 'carried');
        text.textContent = what;
        text.setAttribute('x', x);
        text.setAttribute('y', y + 12);
        texts.push(text);
        break;
      }
    }
    return texts;
  }

  visible(box) {
    let seen = box;
    for (let at = box.parent; at; at = at.parent) if (!at.expanded) seen = at;
    return seen;
  }

  select(box) {
    this.selected = box;
    this.soon();
    for (const done of this.whenSelected) done(box);
  }

  toggle(box) {
    const before = placeOf(box);
    this.model.setExpanded(box, !box.expanded);
    if (!this.model.isVisible(this.selected)) this.select(this.visible(this.selected));
    this.layOut();
    const after = placeOf(box); // The box stays where it is on the screen.
    this.moveTo(this.x + (before.x - after.x) * this.scale,
      this.y + (before.y - after.y) * this.scale);
  }

  moveTo(x, y) {
    this.x = x;
    this.y = y;
    this.soon();
  }

  zoom(factor, centreX, centreY) {
    const scale = Math.min(4, Math.max(0.002, this.scale * factor));
    const actual = scale / this.scale;
    this.scale = scale;
    this.moveTo(centreX - (centreX - this.x) * actual, centreY - (centreY - this.y) * actual);
  }

  zoomMiddle(factor) {
    const { width, height } = this.svg.getBoundingClientRect();
    this.zoom(factor, width / 2, height / 2);
  }

  // Shows the whole graph, no larger than it is, from its upper left.
  fit() {
    const { width, height } = this.svg.getBoundingClientRect();
    const root = this.model.root;
    this.scale = Math.min(1, Math.max(0.002,
      Math.min((width - 20) / root.width, (height - 20) / root.height)));
    this.moveTo(10, 10);
  }

  // Opens the groups around the box and brings it to the middle, readable.
  show(box) {
    this.model.reveal(box);
    this.selected = box;
    this.layOut();
    const { width, height } = this.svg.getBoundingClientRect();
    const place = placeOf(box);
    this.scale = Math.max(0.8, this.scale);
    this.x = width / 2 - (place.x + Math.min(box.width / 2, 130)) * this.scale;
    this.y = height / 2 - (place.y + kHeader / 2) * this.scale;
    this.select(box);
  }

  boxAt(event) {
    const id = event.target.dataset?.box;
    return id === undefined ? null : this.model.boxes[Number(id)];
  }

  listen() {
    const svg = this.svg;
    let grip = null;
    svg.addEventListener('wheel', (event) => {
      event.preventDefault();
      const { left, top } = svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - left, event.clientY - top);
    }, { passive: false });
    svg.addEventListener('pointerdown', (event) => {
      grip = { x: event.clientX - this.x, y: event.clientY - this.y };
      const box = this.boxAt(event);
      if (box) this.select(box);
    });
    svg.addEventListener('pointermove', (event) => {
      if (!grip || event.buttons !== 1) return;
      this.moveTo(event.clientX - grip.x, event.clientY - grip.y);
    });
    svg.addEventListener('pointerup', () => { grip = null; });
    svg.addEventListener('dblclick', (event) => {
      const box = this.boxAt(event);
      if (box) this.toggle(box);
    });
  }
}

function isAscii(text) {
  return /^[ -~]*$/.test(text);
}

// Sets only attributes that differ, since the browser does not compare.
function set(element, name, value) {
  const known = (element.known ??= {});
  if (known[name] === value) return;
  known[name] = value;
  element.setAttribute(name, value);
}

function curve(from, fromPlace, to, toPlace) {
  const y1 = fromPlace.y + Math.min(from.height / 2, 13);
  const y2 = toPlace.y + Math.min(to.height / 2, 13);
  const x1 = fromPlace.x + from.width;
  const x2 = toPlace.x;
  const bend = Math.max(16, Math.abs(x2 - x1) / 3);
  const low = x2 < x1 ? 2 * Math.max(from.height, to.height, 20) : 0; // A link back runs lower.
  return `M${x1} ${y1}C${x1 + bend} ${y1 + low} ${x2 - bend} ${y2 + low} ${x2} ${y2}`
    + `m-5 -3l5 3l-5 3`;
}
