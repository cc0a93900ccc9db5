// The page of a running controller: requests its state again and again, fills the panel "Cluster",
// and shows the graph of the program that is chosen.
//
// The script creates everything on the page from the document, once. For another document the body
// becomes what it was before, with the new document in it, and the script runs again. The first
// Live stays, as window.gangwayLive: it holds the token and the state of the cluster.
//
// The token came in the address. The script removes it there, so that it is neither in the history
// nor seen over a shoulder, and keeps it in memory alone. A page that is loaded anew therefore
// needs the address that the controller printed.
import { Cluster } from './cluster.js';
import { choicesOf, executableOf, nextShown } from './executables.js';
import { openAsBefore, openNow } from './kept_boxes.js';
import { LiveTimeline } from './live_timeline.js';
import { shown } from './model.js';
import { madeOf } from './series.js';

const kPollMs = 1000;
const kHiddenPollMs = 15000;
const kPatienceMs = 20000; // Limit on the wait for an answer.
const bodyAtFirst = window.gangwayLive ? null : document.body.cloneNode(true);

// The script calls it last.
export function attachLive(gangway, { live }) {
  if (!live && !window.gangwayLive) return;
  window.gangwayLive ??= new Live();
  window.gangwayLive.attach(gangway);
}

class Live {
  constructor() {
    this.token = new URLSearchParams(location.search).get('token') ?? '';
    history.replaceState(null, '', location.pathname);
    this.cluster = new Cluster((id) => this.choose({ id }), () => this.redraw());
    this.sample = 0;
    this.executables = [];
    this.chosen = null; // {id, plan, name}
    this.drawn = null; // The same for the graph that is shown, and its request.
    this.kept = null; // State of the picture, until the next picture exists.
    this.timeline = null; // Timeline of the graph that is shown.
    this.lostSince = null;
    this.failures = 0;
    this.polls = 0;
    this.timer = 0;
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.again(0);
    });
    this.again(0);
  }

  // Attaches to the objects that the script has just created.
  attach(gangway) {
    this.gangway = gangway;
    this.chooser = madeOf('select', '');
    this.chooser.id = 'chooser';
    this.chooser.setAttribute('aria-label', 'Program whose graph is shown');
    this.chooser.addEventListener('change', () => {
      const [id, plan] = this.chooser.value.split(' ').map(Number);
      this.choose({ id, plan });
    });
    this.notice = madeOf('div', '');
    this.notice.id = 'notice';
    this.notice.setAttribute('role', 'status');
    document.querySelector('header').prepend(this.chooser);
    document.querySelector('header').append(this.notice);
    gangway.panels.add('Cluster', (room) => this.cluster.draw(room));
    if (this.drawn) {
      const { wanted } = this.drawn;
      this.timeline = new LiveTimeline(gangway, () => this.ask(`/api/timeline?${wanted}`));
    }
    gangway.panels.choose(this.kept ? this.kept.panel : 'Cluster');
    this.fillChooser();
    this.tell();
    if (this.kept) this.restore();
  }

  again(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), ms);
  }

  async ask(path) {
    const answer = await fetch(path, {
      headers: { Authorization: `Bearer ${this.token}` }, cache: 'no-store', credentials: 'omit',
      signal: AbortSignal.timeout(kPatienceMs),
    });
    const text = await answer.text();
    if (answer.ok) return text;
    const error = new Error(text.trim() || answer.statusText);
    error.status = answer.status;
    throw error;
  }

  async poll() {
    if (this.polling) return;
    this.polling = true;
    try {
      const now = JSON.parse(await this.ask('/api/cluster'));
      await this.readHistory();
      this.cluster.setNow(now);
      this.executables = now.executables;
      this.lostSince = null;
      this.failures = 0;
      this.polls += 1;
      await this.follow();
      await this.timeline?.poll();
    } catch (error) {
      this.lostSince ??= new Date();
      this.failures += 1;
      this.why = error.status ? error.message : '';
    }
    this.polling = false;
    this.tell();
    this.fillChooser();
    this.redraw();
    const wait = Math.min(10000, kPollMs * 2 ** Math.max(0, this.failures - 2));
    this.again(document.hidden ? kHiddenPollMs : wait);
  }

  async readHistory() {
    let history = JSON.parse(await this.ask(`/api/history?after=${this.sample}`));
    if (this.since && history.since_ms !== this.since) { // Another controller answers now.
      this.cluster.forget();
      this.chosen = null;
      this.drawn = null;
      history = JSON.parse(await this.ask('/api/history?after=0'));
    }
    this.since = history.since_ms;
    this.sample = history.sample;
    this.cluster.addHistory(history);
  }

  choose(wanted) {
    this.chosen = executableOf(this.executables, wanted) ?? this.chosen;
    this.again(0);
  }

  // Shows the graph of the chosen program, or of the first that has one. The graph of an ended
  // program stays.
  async follow() {
    const next = nextShown(this.executables, this.chosen);
    if (!next || next.plan === this.drawn?.plan) return;
    const program = this.cluster.programs.get(next.id);
    if (!program) return;
    const name = encodeURIComponent(`${program.owner}/${program.program}`);
    const wanted = `program=${name}&plan=${next.plan}`;
    let text;
    try {
      text = await this.ask(`/api/graph?${wanted}`);
    } catch (error) {
      if (error.status === 400) return; // The program has ended; later answers do not name it.
      throw error;
    }
    this.kept = keptOf(this.gangway, this.drawn?.id === next.id);
    this.chosen = next;
    this.drawn = { ...next, wanted };
    startAgain(text);
  }

  restore() {
    const { kept, gangway: { model, view } } = this;
    this.kept = null;
    if (kept.expanded) {
      const selected = openAsBefore(model, kept);
      view.update();
      Object.assign(view, { scale: kept.scale, x: kept.x, y: kept.y });
      if (selected) view.select(selected);
      view.draw();
    }
    if (kept.focus) document.getElementById(kept.focus)?.focus();
  }

  fillChooser() {
    const { options, at } = choicesOf(this.executables, this.cluster.programs, this.drawn);
    const now = JSON.stringify([options, at]);
    if (this.chooser.dataset.now === now) return; // Its list may be open.
    this.chooser.dataset.now = now;
    this.chooser.replaceChildren(...options.map(([value, text]) => {
      const option = madeOf('option', '', text);
      option.value = value;
      option.selected = value === at;
      return option;
    }));
  }

  tell() {
    this.notice.hidden = this.lostSince === null;
    const text = this.lostSince === null ? '' : `not connected since ${
      this.lostSince.toTimeString().slice(0, 8)}${this.why ? `: ${shown(this.why)}` : ''}`;
    if (this.notice.textContent !== text) this.notice.textContent = text;
  }

  // Keeps the panel's scroll position, and the element that has the focus.
  redraw() {
    const { panels } = this.gangway;
    const key = document.activeElement?.dataset.key;
    const top = panels.room.scrollTop;
    panels.refresh('Cluster');
    panels.room.scrollTop = top;
    if (key === undefined || panels.open !== 'Cluster') return;
    const all = [...panels.room.querySelectorAll('[data-key]')];
    all.find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
  }
}

// Returns the page's state; for a graph of the same program also the boxes and the part in view.
function keptOf({ model, view, panels }, isSameProgram) {
  const kept = { panel: panels.open, focus: document.activeElement?.id };
  if (!isSameProgram) return kept;
  const { scale, x, y, selected } = view;
  return Object.assign(kept, openNow(model, selected), { scale, x, y });
}

function startAgain(text) {
  const body = bodyAtFirst.cloneNode(true);
  const [data, script] = body.querySelectorAll('script');
  data.textContent = text;
  const next = document.createElement('script'); // A copy of a script that ran would not run.
  next.type = 'module';
  next.textContent = script.textContent;
  script.remove();
  document.body.replaceWith(body);
  body.append(next);
}
