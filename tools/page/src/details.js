// What is known of the selected box: every field of its JSON, and where its values come from and
// go. Only as text.
import { shown } from './model.js';
import { carriedText } from './view.js';

const kLongest = 2000; // Letters of one value.
const kLinks = 100;
const kInTree = new Set(['nodes', 'parameters', 'functions', 'bodies', 'slices', 'body', 'id']);

export class Details {
  constructor(view, panel) {
    this.view = view;
    this.panel = panel;
    view.whenSelected.push((box) => this.show(box));
    this.show(view.selected);
  }

  show(box) {
    const parts = [part('h2', box.label), part('p', pathOf(box))];
    const list = document.createElement('dl');
    for (const [name, value] of Object.entries(box.data)) {
      if (!kInTree.has(name) && !isEmpty(value)) row(list, name, textOf(name, value));
    }
    if (box.children.length > 0) row(list, 'boxes in it', String(box.children.length));
    if (box.sameAs) row(list, 'drawn in', pathOf(box.sameAs));
    const { overlay } = this.view;
    if (overlay) row(list, overlay.title, overlay.textOf(box));
    if (box.laid) row(list, 'lies', box.laid.sharding.join(', ') || 'whole');
    parts.push(list);
    this.links('from', box.incoming, 'from', parts);
    this.links('to', box.outgoing, 'to', parts);
    if (box.laid?.why) {
      parts.push(part('h3', 'why'));
      const text = part('p', cut(box.laid.why));
      text.className = 'why';
      parts.push(text);
    }
    this.panel.replaceChildren(...parts);
  }

  links(title, links, end, parts) {
    if (links.length === 0) return;
    parts.push(part('h3', `${title} (${links.length})`));
    const list = document.createElement('ul');
    for (const link of links.slice(0, kLinks)) {
      const button = part('button', link[end].label);
      button.addEventListener('click', () => this.view.show(link[end]));
      const item = document.createElement('li');
      item.append(button, part('span', ` ${carriedText(link.bytes, link.moves)}`));
      for (const move of link.moves) item.append(part('p', cut(move.text)));
      list.append(item);
    }
    parts.push(list);
  }
}

function part(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function row(list, name, text) {
  list.append(part('dt', shown(name)), part('dd', text));
}

function isEmpty(value) {
  return value === null || value === ''
    || (typeof value === 'object' && Object.keys(value).length === 0);
}

// Results and types line by line; anything else as JSON says it.
function textOf(name, value) {
  if (name === 'results' && value.every((result) => result.type)) {
    return cut(value.map((result) => {
      const sharding = result.sharding ? ` [${result.sharding.join(', ')}]` : '';
      return `%${result.id} ${result.type}${sharding}`;
    }).join('\n'));
  }
  if (name === 'types') return cut(value.join('\n'));
  return cut(typeof value === 'string' ? value : JSON.stringify(value));
}

function cut(text) {
  const lines = text.slice(0, kLongest).split('\n').map((line) => {
    const all = [];
    for (let at = 0; at < line.length; at += 200) all.push(shown(line.slice(at, at + 200)));
    return all.join('');
  }).join('\n');
  return text.length > kLongest ? `${lines}\u2026` : lines;
}

function pathOf(box) {
  const names = [];
  for (let at = box; at; at = at.parent) names.unshift(at.label);
  return names.join(' / ');
}
