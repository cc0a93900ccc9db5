// A small picture of the whole graph in its corner: the open groups and the window. A click or a
// drag moves the window there.
const kLargest = 180; // Pixels, in either direction.
const kMinimapBoxes = 2000;

export class Minimap {
  constructor(view, canvas) {
    this.view = view;
    this.canvas = canvas;
    this.layer = document.createElement('canvas'); // Only the boxes.
    this.layerOf = ''; // The state for which it was drawn.
    view.whenDrawn.push(() => this.draw());
    const move = (event) => {
      if (event.buttons !== 1) return;
      this.moveTo(event.offsetX / this.scale, event.offsetY / this.scale);
    };
    canvas.addEventListener('pointerdown', move);
    canvas.addEventListener('pointermove', move);
  }

  // Moves the point to the middle of the window.
  moveTo(x, y) {
    const { view } = this;
    const { width, height } = view.svg.getBoundingClientRect();
    view.moveTo(width / 2 - x * view.scale, height / 2 - y * view.scale);
  }

  draw() {
    const { view, canvas, layer } = this;
    const { root } = view.model;
    this.scale = Math.min(kLargest / root.width, kLargest / root.height);
    const style = getComputedStyle(document.documentElement);
    const drawnFor = `${view.layouts} ${style.getPropertyValue('--page')}`;
    if (drawnFor !== this.layerOf) {
      this.layerOf = drawnFor;
      layer.width = Math.max(1, Math.round(root.width * this.scale));
      layer.height = Math.max(1, Math.round(root.height * this.scale));
      canvas.width = layer.width;
      canvas.height = layer.height;
      this.drawBoxes(style);
    }
    const pen = canvas.getContext('2d');
    pen.drawImage(layer, 0, 0);
    const { left, top, right, bottom } = view.window;
    pen.strokeStyle = style.getPropertyValue('--chosen');
    pen.lineWidth = 2;
    pen.strokeRect(left * this.scale, top * this.scale, (right - left) * this.scale,
      (bottom - top) * this.scale);
  }

  // The walk is breadth first: boxes that are left out lie deepest, or are hardly larger than a
  // dot.
  drawBoxes(style) {
    const boxes = [[this.view.model.root, 0, 0]];
    const colours = {};
    for (const name of ['--open0', '--open1', '--scope', '--edge']) {
      colours[name] = style.getPropertyValue(name);
    }
    const pen = this.layer.getContext('2d');
    pen.strokeStyle = colours['--edge'];
    pen.lineWidth = 0.5;
    for (let i = 0; i < boxes.length; ++i) {
      const [box, x, y] = boxes[i];
      const [width, height] = [box.width * this.scale, box.height * this.scale];
      pen.fillStyle = colours[box.expanded ? `--open${box.depth % 2}` : '--scope'];
      pen.fillRect(x, y, width, height);
      pen.strokeRect(x, y, width, height);
      if (!box.expanded || height < 3) continue;
      for (const child of box.children.slice(0, kMinimapBoxes - boxes.length)) {
        boxes.push([child, x + child.x * this.scale, y + child.y * this.scale]);
      }
    }
  }
}
