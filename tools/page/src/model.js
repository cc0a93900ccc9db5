// The program's JSON as a tree of boxes: program, slices, scopes, nodes, and below a node that
// calls a function the function's scopes, parameters and ops. A function or body that several
// nodes name is drawn below the first of them; the others say whose it is.

const kCut = 200; // Letters of a name that are looked at: names may be of any length.

// What a person can tell apart: control characters, and those that turn the direction of text, are
// shown as pictures of themselves.
export function shown(text) {
  return String(text).slice(0, kCut)
    .replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, '\ufffd');
}

export class Model {
  constructor(program) {
    this.program = program;
    this.boxes = [];
    this.links = []; // {from, to, update}: between boxes, as exact as the JSON says.
    this.drawnFunctions = new Map();
    this.drawnBodies = new Map();
    this.root = this.add(null, 'program', program.name || 'program', program);
    this.root.expanded = true;
    const slices = program.slices.map((slice) => {
      const box = this.add(this.root, 'slice', slice.name, slice);
      box.expanded = true;
      return box;
    });
    const ends = program.nodes.map((node) => this.addProgramNode(slices[node.slice], node));
    program.nodes.forEach((node, id) => this.linkProgramNode(ends, node, id));
    this.groupLinks();
  }

  add(parent, kind, label, data) {
    const box = {
      id: this.boxes.length, kind, label: shown(label), parent, data, children: [],
      depth: parent ? parent.depth + 1 : 0, expanded: false, dirty: true, sides: [],
      groups: null, incoming: [], outgoing: [], x: 0, y: 0, width: 0, height: 0,
    };
    this.boxes.push(box);
    if (parent) parent.children.push(box);
    return box;
  }

  // The group below `parent` with these names, outermost first.
  scope(parent, names) {
    let at = parent;
    for (const name of names) {
      at.groups ??= new Map();
      let next = at.groups.get(name);
      if (!next) {
        next = this.add(at, 'scope', name, { scope: name });
        at.groups.set(name, next);
      }
      at = next;
    }
    return at;
  }

  addProgramNode(slice, node) {
    const names = node.kind === 'state' ? node.name.slice(0, kCut).split('.') : [node.name];
    const group = this.scope(slice, names.slice(0, -1).slice(0, 16));
    const box = this.add(group, 'node', `${node.kind} ${names.at(-1)}`, node);
    const ends = { box, parameters: [], results: [] };
    if (node.function === undefined) return ends;
    const drawn = this.drawnFunctions.get(node.function);
    if (drawn) {
      box.sameAs = drawn;
      return ends;
    }
    this.drawnFunctions.set(node.function, box);
    const values = this.addFunction(box, this.program.functions[node.function]);
    const made = this.program.functions[node.function];
    ends.parameters = made.parameters.map((parameter) => values[parameter.id]);
    ends.results = made.results.map((result) => values[result.id]);
    return ends;
  }

  // Returns the box that makes each of the function's values.
  addFunction(parent, made) {
    const values = [];
    for (const parameter of made.parameters) {
      values[parameter.id] = this.add(parent, 'parameter', parameter.name, parameter);
    }
    for (const node of made.nodes) {
      const box = this.add(this.scope(parent, scopesOf(node)), 'op', node.op, node);
      for (const input of node.inputs) this.link(values[input], box, false);
      for (const result of node.results) values[result.id] = box;
      this.addBody(box, node.body);
    }
    return values;
  }

  addBody(box, body) {
    if (body === undefined) return;
    if (typeof body === 'object') {
      this.addFunction(box, body);
      return;
    }
    const drawn = this.drawnBodies.get(body);
    if (drawn) {
      box.sameAs = drawn;
      return;
    }
    this.drawnBodies.set(body, box);
    this.addFunction(box, this.program.bodies[body]);
  }

  linkProgramNode(ends, node, id) {
    node.inputs.forEach((input, i) => {
      const from = ends[input.node];
      this.link(from.results[input.result] ?? from.box, ends[id].parameters[i] ?? ends[id].box,
        false);
    });
    for (const update of node.updates) {
      this.link(ends[id].results[update.result] ?? ends[id].box, ends[update.state].box, true);
    }
  }

  link(from, to, update) {
    if (!from || !to || from === to) return;
    const link = { from, to, update };
    this.links.push(link);
    from.outgoing.push(link);
    to.incoming.push(link);
  }

  // Each link as one of two boxes side by side in the innermost group that holds both; those of the
  // same two boxes are one, with a count.
  groupLinks() {
    const found = new Map();
    for (const link of this.links) {
      let [from, to] = [link.from, link.to];
      while (from.depth > to.depth && from.parent !== to.parent) from = from.parent;
      while (to.depth > from.depth && from.parent !== to.parent) to = to.parent;
      while (from.parent !== to.parent) [from, to] = [from.parent, to.parent];
      if (from === to) continue; // One holds the other.
      const key = `${from.id} ${to.id} ${link.update}`;
      const side = found.get(key);
      if (side) {
        side.count += 1;
      } else {
        const made = { from, to, update: link.update, count: 1 };
        found.set(key, made);
        from.parent.sides.push(made);
      }
    }
  }

  isGroup(box) { return box.children.length > 0; }

  setExpanded(box, expanded) {
    if (!this.isGroup(box) || box === this.root || box.expanded === expanded) return;
    box.expanded = expanded;
    for (let at = box; at && !at.dirty; at = at.parent) at.dirty = true;
  }

  setAll(expanded) {
    for (const box of this.boxes) {
      box.dirty = true;
      if (box !== this.root && this.isGroup(box)) box.expanded = expanded;
    }
  }

  // Opens what `box` lies in.
  reveal(box) {
    for (let at = box.parent; at; at = at.parent) this.setExpanded(at, true);
  }

  isVisible(box) {
    for (let at = box.parent; at; at = at.parent) if (!at.expanded) return false;
    return true;
  }
}

function scopesOf(node) {
  if (node.scopes) return node.scopes;
  return node.where.split(' in ').slice(1).reverse();
}
