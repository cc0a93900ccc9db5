// Finds the longest way through a program, which all of the program waits for.

// Returns the node of the program that has the box in it, or is the box.
export function nodeAround(box) {
  let at = box;
  while (at.owner) at = at.owner;
  return at;
}

// Returns the boxes on the longest way through the program, and through these nodes' functions.
export function criticalBoxes(model, times) {
  const levels = new Map(); // The boxes of each owner, in an order in which they may run.
  for (const box of model.boxes) {
    if (box.kind === 'scope' || box.kind === 'slice' || box.kind === 'program') continue;
    if (!levels.has(box.owner)) levels.set(box.owner, []);
    levels.get(box.owner).push(box);
  }
  const critical = new Set();
  const stack = [null];
  while (stack.length > 0) {
    const owner = stack.pop();
    for (const box of longestWay(levels.get(owner) ?? [], owner, times)) {
      critical.add(box);
      for (let at = box.parent; at && !critical.has(at); at = at.parent) critical.add(at);
      if (levels.has(box)) stack.push(box);
    }
  }
  return critical;
}

function longestWay(boxes, owner, times) {
  const end = new Map(); // The earliest time at which a box has run.
  const before = new Map();
  let last = null;
  for (const box of boxes) {
    end.set(box, times.get(box));
    for (const link of incomingOf(box, owner)) {
      if (!end.has(link) || end.get(link) + times.get(box) <= end.get(box)) continue;
      end.set(box, end.get(link) + times.get(box));
      before.set(box, link);
    }
    if (last === null || end.get(box) > end.get(last)) last = box;
  }
  const way = [];
  for (let at = last; at; at = before.get(at)) way.push(at);
  return way;
}

// A node of the program also reads the values of its parameters.
function incomingOf(box, owner) {
  const links = [...box.incoming];
  if (owner === null) {
    for (const child of box.children) if (child.kind === 'parameter') links.push(...child.incoming);
  }
  return links.filter((link) => !link.update)
    .map((link) => (owner === null ? nodeAround(link.from) : link.from));
}
