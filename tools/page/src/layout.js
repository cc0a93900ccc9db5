// Places the boxes: those of a group in layers from left to right along its links, a long layer in
// several columns. Places are relative to the group, so that opening one lays out only the groups
// around it.

export const kHeader = 26; // Height of an open group's name.
const kRow = 26;
const kGap = 10;
const kLayerGap = 44;
const kPadding = 12;
const kColumn = 40; // Limit on the boxes in a column.

// Lays out the groups that changed below `root`. measure(text) returns the width of a text.
export function layOut(root, measure) {
  const stack = [[root, false]];
  while (stack.length > 0) {
    const [box, childrenDone] = stack.pop();
    if (!box.dirty) continue;
    if (!box.expanded || box.children.length === 0) {
      setClosedSize(box, measure);
      box.dirty = false;
    } else if (!childrenDone) {
      stack.push([box, true]);
      for (const child of box.children) stack.push([child, false]);
    } else {
      placeChildren(box, measure);
      box.dirty = false;
    }
  }
}

function labelWidth(box, measure) {
  return Math.min(260, Math.max(70, measure(box.label) + 34));
}

function setClosedSize(box, measure) {
  box.width = labelWidth(box, measure);
  box.height = kRow;
}

function placeChildren(group, measure) {
  const layers = layersOf(group);
  let x = kPadding;
  let bottom = 0;
  for (const layer of layers) {
    for (let first = 0; first < layer.length; first += kColumn) {
      const column = layer.slice(first, first + kColumn);
      let y = kHeader + kPadding;
      let width = 0;
      for (const box of column) {
        box.x = x;
        box.y = y;
        y += box.height + kGap;
        width = Math.max(width, box.width);
      }
      bottom = Math.max(bottom, y - kGap);
      x += width + (first + kColumn < layer.length ? kGap : kLayerGap);
    }
  }
  group.width = Math.max(labelWidth(group, measure) + 8, x - kLayerGap + kPadding);
  group.height = bottom + kPadding;
}

// A box lies behind all that it reads; a link that closes a cycle, or is an update, does not count.
function layersOf(group) {
  const behind = new Map(group.children.map((child) => [child, []]));
  for (const side of group.sides) if (!side.update) behind.get(side.from).push(side.to);
  const order = orderOf(group.children, behind);
  const place = new Map(order.map((box, i) => [box, i]));
  const depth = new Map();
  const middle = new Map();
  const layers = [];
  const before = new Map(group.children.map((child) => [child, []]));
  for (const box of order) {
    for (const to of behind.get(box)) if (place.get(to) > place.get(box)) before.get(to).push(box);
  }
  for (const box of order) {
    let at = 0;
    for (const from of before.get(box)) at = Math.max(at, depth.get(from) + 1);
    depth.set(box, at);
    (layers[at] ??= []).push(box);
  }
  for (const layer of layers) {
    // A box lies beside the middle of those that it reads; equal ones stay in their first order.
    for (const box of layer) {
      const froms = before.get(box);
      const sum = froms.reduce((total, from) => total + middle.get(from), 0);
      box.wanted = froms.length > 0 ? sum / froms.length : 0;
    }
    layer.sort((a, b) => a.wanted - b.wanted || a.id - b.id);
    layer.forEach((box, i) => middle.set(box, i / layer.length));
  }
  return layers;
}

// Returns the reverse of the order in which a depth-first walk leaves boxes, which is topological
// if there is no cycle.
function orderOf(boxes, behind) {
  const left = [];
  const seen = new Set();
  for (let i = boxes.length - 1; i >= 0; --i) {
    if (seen.has(boxes[i])) continue;
    seen.add(boxes[i]);
    const stack = [[boxes[i], 0]];
    while (stack.length > 0) {
      const top = stack.at(-1);
      const next = behind.get(top[0])[top[1]++];
      if (next === undefined) {
        left.push(top[0]);
        stack.pop();
      } else if (!seen.has(next)) {
        seen.add(next);
        stack.push([next, 0]);
      }
    }
  }
  return left.reverse();
}

// Returns the place relative to the root.
export function placeOf(box) {
  let [x, y] = [box.x, box.y];
  for (let at = box.parent; at; at = at.parent) {
    x += at.x;
    y += at.y;
  }
  return { x, y };
}
