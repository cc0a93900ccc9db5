// Chooses the boxes that are drawn, and the kinds of the lines between them.

const kSmallest = 3; // Pixels: lower boxes are not drawn.
const kWide = [0, 1 << 20, 64 << 20]; // Bytes from which a line is as wide as wide0, wide1, ...
const kLineKinds = 2 * 2 * kWide.length;

// Returns the boxes in the window, with their places, as far as `most` elements reach. Each box
// takes `each` of them, and the lines of an open group one of each kind. The search is breadth
// first, so that the deepest boxes are left out.
export function boxesIn(area, root, scale, { each, most }) {
  const places = new Map([[root, { x: root.x, y: root.y }]]);
  let elements = each;
  for (const [group, at] of places) {
    if (!group.expanded || group.height * scale < 4 * kSmallest) continue;
    elements += kLineKinds;
    for (const child of group.children) {
      if (elements + each > most) return places;
      const place = { x: at.x + child.x, y: at.y + child.y };
      if (child.height * scale < kSmallest || !isIn(area, place, child)) continue;
      places.set(child, place);
      elements += each;
    }
  }
  return places;
}

function isIn({ left, top, right, bottom }, place, box) {
  return place.x < right && place.x + box.width > left && place.y < bottom
    && place.y + box.height > top;
}

export function lineKindOf(side) {
  const wide = kWide.findLastIndex((least) => side.bytes >= least);
  return `${side.update ? 'updates' : 'links'} wide${wide}${side.moves > 0 ? ' with' : ''}`;
}

export function meets(a, b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height
    && b.y < a.y + a.height;
}
