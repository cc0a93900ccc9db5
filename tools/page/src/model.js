// The program's JSON as a tree of boxes: program, slices, scopes, nodes, and below a node that
// calls a function the function's scopes, parameters and ops. A function or body that several nodes
// name is drawn below the first of them, and the others refer to it.

const kCut = 200; // Limit on the letters shown of a name, which may be of any length.

// Returns a text in which a person can tell all letters apart: pictures stand for control
// characters, and for those that turn the direction of text.
export function shown(text) {
  return String(text).slice(0, kCut)
    .replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, '\ufffd');
}

export class Model {
  // `layout` and `plan` are fields of the document; undefined: the document does not have them.
  constructor(program, layout, plan) {
    this.program = program;
    this.layout = layout;
    this.plan = plan;
    this.boxes = [];
    // {from, to, update, bytes, moves}: between boxes, as exact as the JSON says. `bytes` is the
    // size of the whole value, and `moves` has the layout's conversions for the reader.
    this.links = [];
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
      owner: null, laid: null, // Node of its function, null: the program's; its first layout.
      depth: parent ? parent.depth + 1 : 0, expanded: false, dirty: true, sides: [],
      groups: null, incoming: [], outgoing: [], x: 0, y: 0, width: 0, height: 0,
    };
    this.boxes.push(box);
    if (parent) parent.children.push(box);
    return box;
  }

  // Returns the group below `parent` with these names, outermost first.
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
    const ends = { box, bytes: node.bytes, parameters: [], results: [], moves: [] };
    if (node.function === undefined) return ends;
    const drawn = this.drawnFunctions.get(node.function);
    if (drawn) {
      box.sameAs = drawn;
      return ends;
    }
    this.drawnFunctions.set(node.function, box);
    const laid = this.layout?.functions[node.function];
    const values = this.addFunction(box, this.program.functions[node.function], laid);
    const made = this.program.functions[node.function];
    ends.parameters = made.parameters.map((parameter) => values[parameter.id]);
    ends.results = made.results.map((result) => values[result.id]);
    ends.moves = made.results.map((result) => (
      laid?.[result.id]?.moves?.filter((move) => move.of_result)));
    return ends;
  }

  // Returns the box of each of the function's values. laid: the layout of each value.
  addFunction(parent, made, laid) {
    const values = [];
    const bytes = [];
    const own = (box, value) => {
      box.owner = parent;
      box.laid = laid?.[value] ?? null;
    };
    for (const parameter of made.parameters) {
      const box = this.add(parent, 'parameter', parameter.name, parameter);
      own(box, parameter.id);
      values[parameter.id] = box;
      bytes[parameter.id] = parameter.bytes;
    }
    for (const node of made.nodes) {
      const box = this.add(this.scope(parent, node.scopes), 'op', node.op, node);
      own(box, node.results[0]?.id);
      for (const input of node.inputs) {
        const moves = laid?.[input]?.moves?.filter(({ readers }) => readers.includes(node.id));
        this.link(values[input], box, false, bytes[input], moves);
      }
      for (const result of node.results) {
        values[result.id] = box;
        bytes[result.id] = result.bytes;
      }
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
    this.addFunction(box, this.program.bodies[body], this.layout?.bodies[body]);
  }

  linkProgramNode(ends, node, id) {
    node.inputs.forEach((input, i) => {
      const from = ends[input.node];
      this.link(from.results[input.result] ?? from.box, ends[id].parameters[i] ?? ends[id].box,
        false, from.bytes[input.result], from.moves[input.result]);
    });
    for (const update of node.updates) {
      this.link(ends[id].results[update.result] ?? ends[id].box, ends[update.state].box, true,
        ends[id].bytes[update.result], ends[id].moves[update.result]);
    }
  }

  link(from, to, update, bytes = 0, moves = []) {
    if (!from || !to || from === to) return;
    const link = { from, to, update, bytes, moves: moves.filter((move) => move.sent_bytes > 0) };
    this.links.push(link);
    from.outgoing.push(link);
    to.incoming.push(link);
  }

  // Turns each link into one between two boxes side by side in the innermost group that holds both.
  // Links of the same two boxes are one, with a count.
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
        side.bytes += link.bytes;
        side.moves += link.moves.length;
      } else {
        const made = {
          from, to, update: link.update, count: 1, bytes: link.bytes, moves: link.moves.length,
        };
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

  // Opens the groups that `box` lies in.
  reveal(box) {
    for (let at = box.parent; at; at = at.parent) this.setExpanded(at, true);
  }

  isVisible(box) {
    for (let at = box.parent; at; at = at.parent) if (!at.expanded) return false;
    return true;
  }
}
