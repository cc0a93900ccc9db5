// The control that chooses an overlay, which colours the boxes, and its legend.
import { kMeasured, makers, measured } from './overlay_colours.js';

export class Overlays {
  constructor(view, choice, legend, timeline, places) {
    Object.assign(this, { view, legend, choice, places });
    this.makers = makers(view.model, timeline, places);
    for (const name of ['No overlay', ...this.makers.keys()]) this.offer(name);
    choice.addEventListener('change', () => this.choose(choice.value));
    this.choose('No overlay');
  }

  offer(name) {
    const option = document.createElement('option');
    option.value = name;
    option.textContent = name;
    this.choice.append(option);
  }

  // Called again and again for a running program.
  setTimeline(timeline) {
    if (!this.makers.has(kMeasured)) this.offer(kMeasured);
    this.makers.set(kMeasured, measured(this.view.model, timeline, this.places));
    if (this.choice.value === kMeasured) this.choose(kMeasured);
  }

  choose(name) {
    this.view.overlay = this.makers.get(name)?.() ?? null;
    this.legend.hidden = this.view.overlay === null;
    this.legend.replaceChildren(...(this.view.overlay?.legend ?? []).map(({ kind, text }) => {
      const item = document.createElement('li');
      item.className = kind;
      item.textContent = text;
      return item;
    }));
    this.view.select(this.view.selected);
  }
}
