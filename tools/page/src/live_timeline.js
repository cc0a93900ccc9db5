// The timeline of a running program. While its panel is open, the newest work of the devices is
// requested again and again, until the user looks at a part of it or holds it.
import { shown } from './model.js';
import { madeOf } from './series.js';
import { Timeline } from './timeline.js';

const kBetweenMs = 2000;

export class LiveTimeline {
  // fetchText() returns the next timeline, as JSON.
  constructor({ panels, view, places, overlays }, fetchText) {
    Object.assign(this, { panels, overlays, fetchText });
    this.isHeld = false;
    this.taken = 0;
    this.next = 0;
    this.why = '';
    this.spans = new Timeline({ add: (name, draw) => panels.add(name, (room) => this.draw(room, draw)) },
      view, places, { left_out: 0, rows: [], places: [], spans: [] });
    this.spans.whenTouched = () => this.hold(true);
  }

  draw(room, drawSpans) {
    this.button = madeOf('button', '', 'Hold');
    this.button.type = 'button';
    this.button.id = 'hold';
    this.button.title = 'Keeps this timeline; else the newest one comes every two seconds';
    this.button.addEventListener('click', () => this.hold(!this.isHeld));
    this.notice = madeOf('span', '');
    room.append(this.button, this.notice);
    drawSpans(room);
    this.tell();
  }

  hold(isHeld) {
    if (!isHeld) this.next = 0;
    this.isHeld = isHeld;
    this.tell();
  }

  tell() {
    if (!this.button?.isConnected) return;
    this.button.setAttribute('aria-pressed', String(this.isHeld));
    const waiting = this.taken === 0 ? 'what its devices did last comes when they run' : '';
    this.notice.textContent = shown(this.why || waiting);
  }

  // Throws errors after which the page cannot go on.
  async poll() {
    const isDue = this.panels.open === 'Timeline' && !this.isHeld && performance.now() >= this.next;
    if (!isDue) return;
    try {
      const timeline = JSON.parse(await this.fetchText());
      this.next = performance.now() + kBetweenMs;
      if (this.isHeld) return; // The user has held it meanwhile.
      this.why = '';
      if (timeline.spans.length > 0 || timeline.silent) {
        this.taken += 1;
        this.spans.update(timeline);
        this.overlays.setTimeline(timeline);
      }
    } catch (error) {
      if (error.status !== 400) throw error;
      this.why = error.message; // The program has gone, and the last timeline stays.
    }
    this.tell();
  }
}
