// Finds boxes by a part of their name, op, type or line, in any case. The first kFound are listed.
const kFound = 50;

export class Search {
  constructor(view, field, list) {
    this.view = view;
    this.field = field;
    this.list = list;
    this.found = [];
    this.at = -1;
    this.texts = null;
    field.addEventListener('input', () => this.find(field.value));
    field.addEventListener('keydown', (event) => this.key(event));
  }

  find(words) {
    const { boxes } = this.view.model;
    this.texts ??= boxes.map(textOfBox);
    this.found = boxesWith(words, boxes, this.texts);
    this.at = this.found.length > 0 ? 0 : -1;
    this.show();
  }

  show() {
    this.list.replaceChildren(...this.found.map((box, i) => {
      const item = document.createElement('li');
      item.setAttribute('role', 'option');
      item.setAttribute('aria-selected', String(i === this.at));
      item.textContent = box.parent ? `${box.label}  in ${box.parent.label}` : box.label;
      item.addEventListener('click', () => this.choose(i));
      return item;
    }));
    this.list.hidden = this.found.length === 0;
  }

  choose(i) {
    const box = this.found[i];
    this.close();
    if (box) this.view.show(box);
    this.view.svg.focus();
  }

  close() {
    this.found = [];
    this.at = -1;
    this.show();
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.found.length > 0) {
      this.at = (this.at + step + this.found.length) % this.found.length;
      this.show();
      this.list.children[this.at].scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter') {
      this.choose(this.at);
    } else if (event.key === 'Escape') {
      this.close();
      this.view.svg.focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

// texts: textOfBox() of each box.
export function boxesWith(words, boxes, texts) {
  const wanted = words.trim().toLowerCase();
  const found = [];
  for (let i = 0; wanted !== '' && i < texts.length && found.length < kFound; ++i) {
    if (texts[i].includes(wanted)) found.push(boxes[i]);
  }
  return found;
}

export function textOfBox(box) {
  const { op, type, line } = box.data;
  return [box.label, op, type, line].filter(Boolean).join(' ').slice(0, 400).toLowerCase();
}
