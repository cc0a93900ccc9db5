// Shows the selected box: every field of its JSON, and where its values come from and go. All of it
// is text.
import { carriedText, cut, detailsOf, pathOf } from './details_text.js';
import { shown } from './model.js';

const kLinks = 100;

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
    for (const [name, text] of detailsOf(box, this.view.overlay)) row(list, name, text);
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
