// The panels below the graph, each with a tab. At most one is open at a time.

export class Panels {
  constructor(tabs, room) {
    this.tabs = tabs;
    this.room = room;
    this.all = new Map();
    this.open = null;
  }

  // draw(room): fills the empty element, when the panel opens and whenever refresh() is called.
  add(name, draw) {
    const tab = document.createElement('button');
    tab.type = 'button';
    tab.textContent = name;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-selected', 'false');
    tab.addEventListener('click', () => this.choose(this.open === name ? null : name));
    this.tabs.append(tab);
    this.all.set(name, { tab, draw });
  }

  choose(name) {
    this.open = name;
    for (const [at, { tab }] of this.all) tab.setAttribute('aria-selected', String(at === name));
    this.room.hidden = name === null;
    this.refresh(name);
  }

  // Draws the panel again, after a change, if it is open.
  refresh(name) {
    if (name === null || this.open !== name) return;
    this.room.setAttribute('aria-label', name);
    this.room.replaceChildren();
    this.all.get(name).draw(this.room);
  }
}
