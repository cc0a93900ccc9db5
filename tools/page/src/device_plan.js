// One device's plan beside the graph: its steps in a run, in order, and the bytes of its arena in
// use at each step. A step and the boxes of its line select each other.
import { arenaBytesOf, devicesOf, firstStepOf, stepsOf, summaryOf } from './device_steps.js';
import { shown } from './model.js';

const kStepHeight = 20; // Pixels; only the steps in view are elements.
const kStepsAround = 5;

export class DevicePlan {
  constructor(panels, view, places, plan) {
    this.view = view;
    this.plan = plan;
    this.devices = devicesOf(plan);
    this.device = 0;
    this.steps = stepsOf(plan, this.devices[0]);
    this.at = 0;
    this.places = places;
    this.list = null;
    view.whenSelected.push((box) => this.follow(box));
    panels.add('Device', (room) => this.draw(room));
  }

  draw(room) {
    const side = document.createElement('div');
    side.className = 'arena';
    side.append(this.choice(), this.summary(), this.chart());
    this.list = this.listBox();
    const both = document.createElement('div');
    both.className = 'device';
    both.append(side, this.list);
    room.append(both);
    this.drawSteps();
  }

  choice() {
    const choice = document.createElement('select');
    choice.setAttribute('aria-label', 'Device');
    this.devices.forEach((device, i) => {
      const option = document.createElement('option');
      option.value = String(i);
      option.textContent = shown(device.name);
      choice.append(option);
    });
    choice.value = String(this.device);
    choice.addEventListener('change', () => {
      this.device = Number(choice.value);
      this.steps = stepsOf(this.plan, this.devices[this.device]);
      this.at = 0;
      const room = choice.closest('#panel');
      room.replaceChildren();
      this.draw(room);
    });
    return choice;
  }

  summary() {
    const text = document.createElement('p');
    text.textContent = summaryOf(this.steps);
    return text;
  }

  // Draws the bytes in use at each step, as high as the arena.
  chart() {
    const canvas = document.createElement('canvas');
    canvas.width = 600;
    canvas.height = 120;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', 'Bytes of the arena in use at each step');
    const pen = canvas.getContext('2d');
    const style = getComputedStyle(document.documentElement);
    pen.fillStyle = style.getPropertyValue('--link');
    const all = arenaBytesOf(this.steps);
    const wide = canvas.width / this.steps.length;
    this.steps.forEach((step, i) => {
      const high = all > 0 ? (step.arena ?? 0) / all * canvas.height : 0;
      pen.fillRect(i * wide, canvas.height - high, Math.max(1, wide), high);
    });
    canvas.addEventListener('click', (event) => {
      const { left, width } = canvas.getBoundingClientRect();
      this.choose(Math.floor((event.clientX - left) / width * this.steps.length));
    });
    return canvas;
  }

  listBox() {
    const list = document.createElement('div');
    list.className = 'steps';
    list.tabIndex = 0;
    list.setAttribute('role', 'listbox');
    list.setAttribute('aria-label', 'Steps');
    const all = document.createElement('div');
    all.setAttribute('role', 'presentation');
    all.style.height = `${this.steps.length * kStepHeight}px`;
    list.append(all);
    list.addEventListener('scroll', () => this.drawSteps());
    list.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (step) this.choose(this.at + step);
      else if (event.key === 'Home') this.choose(0);
      else if (event.key === 'End') this.choose(this.steps.length - 1);
      else return;
      event.preventDefault();
    });
    return list;
  }

  drawSteps() {
    const [all] = this.list.children;
    const first = Math.max(0, Math.floor(this.list.scrollTop / kStepHeight) - kStepsAround);
    const last = Math.min(this.steps.length,
      Math.ceil((this.list.scrollTop + this.list.clientHeight) / kStepHeight) + kStepsAround);
    const digits = String(this.steps.length - 1).length;
    const options = [];
    for (let i = first; i < last; ++i) {
      const option = document.createElement('div');
      option.id = `step${i}`;
      option.setAttribute('role', 'option');
      option.setAttribute('aria-selected', String(i === this.at));
      option.style.top = `${i * kStepHeight}px`;
      option.textContent = `${String(i).padStart(digits)}  ${this.steps[i].text}`;
      option.addEventListener('click', () => this.choose(i));
      options.push(option);
    }
    all.replaceChildren(...options);
    this.list.setAttribute('aria-activedescendant', `step${this.at}`);
  }

  choose(i) {
    this.goTo(Math.min(this.steps.length - 1, Math.max(0, i)));
    const box = this.box();
    if (box) this.view.show(box);
  }

  // Returns the box of the step that is selected.
  box() { return this.places.first(this.steps[this.at].keys); }

  // Goes to the first step of a box that the user selected.
  follow(box) {
    if (!this.list?.isConnected || this.box() === box) return;
    const at = firstStepOf(this.steps, box);
    if (at >= 0) this.goTo(at);
  }

  goTo(i) {
    this.at = i;
    const top = this.at * kStepHeight;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    const low = top + kStepHeight - this.list.clientHeight;
    if (low > this.list.scrollTop) this.list.scrollTop = low;
    this.drawSteps();
  }
}
