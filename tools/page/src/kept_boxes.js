// Carries over which boxes are open, and which one is selected, from one graph of a program to the
// next one.

// Returns {expanded, selected}: keys of boxes.
export function openNow(model, selected) {
  const keys = keysOfBoxes(model);
  return {
    expanded: new Set(model.boxes.filter((box) => box.expanded).map((box) => keys.get(box))),
    selected: keys.get(selected),
  };
}

// Opens those boxes of another graph. Returns the box that was selected; undefined if the graph has
// none, or none that is visible.
export function openAsBefore(model, { expanded, selected }) {
  const keys = keysOfBoxes(model);
  for (const box of model.boxes) model.setExpanded(box, expanded.has(keys.get(box)));
  const found = model.boxes.find((box) => keys.get(box) === selected);
  return found && model.isVisible(found) ? found : undefined;
}

// A key is a box's name behind those of the boxes that it lies in. It is the same in the next
// graph.
function keysOfBoxes(model) {
  const keys = new Map([[model.root, '']]);
  for (const box of model.boxes) { // A box comes behind the one that it lies in.
    const counts = new Map();
    for (const child of box.children) {
      const name = `${child.kind} ${child.label}`;
      counts.set(name, (counts.get(name) ?? 0) + 1);
      keys.set(child, `${keys.get(box)}/${name}#${counts.get(name)}`);
    }
  }
  return keys;
}
