// Queries about the page's present state: bodies of functions for Browser::evaluate. Queries that
// look for faults return a list of faults.
#pragma once

namespace gangway {

// Labels that leave their own box, or that meet another label.
inline constexpr const char* kMisplacedLabels = R"js(
const wrong = [];
const shown = [...document.querySelectorAll('.label')].map((text) => {
  const box = document.querySelector(`rect[data-box="${text.dataset.box}"]`);
  return { name: text.textContent, at: text.getBoundingClientRect(),
    box: box.getBoundingClientRect() };
});
for (const { name, at, box } of shown) {
  if (at.left < box.left || at.right > box.right || at.top < box.top || at.bottom > box.bottom) {
    wrong.push(`${name} leaves its box`);
  }
}
shown.forEach((a, i) => shown.slice(i + 1).forEach((b) => {
  if (a.at.left < b.at.right && b.at.left < a.at.right && a.at.top < b.at.bottom
    && b.at.top < a.at.bottom) wrong.push(`${a.name} meets ${b.name}`);
}));
const carried = [...document.querySelectorAll('.carried')].map((text) => ({
  name: text.textContent, at: text.getBoundingClientRect() }));
carried.forEach((a, i) => [...shown, ...carried.slice(i + 1)].forEach((b) => {
  if (a.at.left < b.at.right && b.at.left < a.at.right && a.at.top < b.at.bottom
    && b.at.top < a.at.bottom) wrong.push(`${a.name} meets ${b.name}`);
}));
return wrong.slice(0, 10);
)js";

// Boxes inside the window that are not drawn, or drawn at a wrong place or as a wrong kind, and
// labels that are not their boxes' names. The view must have room for all boxes.
inline constexpr const char* kDrawn = R"js(
const { model, view } = window.gangway;
const wrong = [];
const labels = [...document.querySelectorAll('.label')];
for (const text of labels) {
  const box = model.boxes[text.dataset.box];
  const name = text.textContent.replace(/^[\u25be\u25b8] /, '').replace(/\u2026$/, '');
  if (name === '' || !box.label.startsWith(name)) wrong.push(`${box.label} is called ${name}`);
}
const drawn = new Set(labels.map((text) => Number(text.dataset.box)));
const { left, top, width, height } = view.svg.getBoundingClientRect();
const stack = [[model.root, view.x, view.y]];
while (stack.length > 0) {
  const [box, x, y] = stack.pop();
  const inside = x < width && y < height && x + box.width * view.scale > 0
    && y + box.height * view.scale > 0;
  const right = inside === drawn.has(box.id) || box === model.root; // Which always is.
  if (!right) wrong.push(`${box.label} ${inside ? 'lacks' : 'is drawn'}`);
  if (inside) {
    const rect = document.querySelector(`rect[data-box="${box.id}"]`);
    const at = rect.getBoundingClientRect(); // With its edge.
    const off = Math.max(Math.abs(at.left - left - x), Math.abs(at.top - top - y),
      Math.abs(at.width - box.width * view.scale), Math.abs(at.height - box.height * view.scale));
    if (off > 1.1 * Math.max(1, view.scale)) wrong.push(`${box.label} is ${off} off`);
    const is = { [box.kind]: true, open: box.expanded, selected: box === view.selected };
    for (const [name, wanted] of Object.entries(is)) {
      if (rect.classList.contains(name) !== wanted) wrong.push(`${box.label}: ${name}`);
    }
  }
  for (const child of box.expanded ? box.children : []) {
    stack.push([child, x + child.x * view.scale, y + child.y * view.scale]);
  }
}
return { labels: labels.length, wrong: wrong.slice(0, 10) };
)js";

// Parts of the page that are wider than the room they have, or lie outside the window.
inline constexpr const char* kOverflowing = R"js(
const wrong = [];
for (const part of document.querySelectorAll('body, header, button, #details, #found, #found li')) {
  if (part.scrollWidth > part.clientWidth + 1) wrong.push(`${part.id || part.textContent} is wide`);
}
for (const part of document.querySelectorAll('header, header > :not([hidden]), aside, #picture')) {
  const at = part.getBoundingClientRect();
  if (at.left < 0 || at.top < 0 || at.right > innerWidth || at.bottom > innerHeight) {
    wrong.push(`${part.id} leaves the window`);
  }
}
return wrong;
)js";

// Text with a contrast below 4.5 to its background (WCAG's relative luminance).
inline constexpr const char* kFaint = R"js(
const channels = (colour) => {
  const all = colour.match(/[\d.]+/g).map(Number);
  if (all.length > 3 && all[3] !== 1) return null;
  return all.slice(0, 3);
};
const luminance = (colour) => {
  const [r, g, b] = colour.map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
const wrong = [];
let looked = 0;
const check = (name, ink, behind) => {
  looked += 1;
  const value = ink && behind ? contrast(ink, behind) : 0;
  if (value < 4.5) wrong.push(`${name}: ${value}`);
};
for (const text of document.querySelectorAll('.label')) {
  const box = document.querySelector(`rect[data-box="${text.dataset.box}"]`);
  check(text.textContent, channels(getComputedStyle(text).fill),
    channels(getComputedStyle(box).fill));
}
for (const part of document.querySelectorAll(
  'button, input, select, h2, h3, p, dt, dd, #found li, #legend li, .rows li,'
    + '#panel [role="option"]')) {
  let behind = null;
  for (let at = part; at && !behind; at = at.parentElement) {
    behind = channels(getComputedStyle(at).backgroundColor);
  }
  check(part.id || part.textContent, channels(getComputedStyle(part).color), behind);
}
const field = document.getElementById('search');
check('placeholder', channels(getComputedStyle(field, '::placeholder').color),
  channels(getComputedStyle(field).backgroundColor));
return looked > 10 ? wrong.slice(0, 10) : ['nothing to look at'];
)js";

// Shows a large program in many ways. Returns the time of each until it is drawn, and the number of
// elements in the whole document after it.
inline constexpr const char* kManyLooks = R"js(
const { model, view, setAll } = window.gangway;
const result = { ms: [], elements: [] };
const timed = (act) => {
  const before = performance.now();
  act();
  view.draw();
  view.scene.getBBox(); // So that the browser lays it out now.
  result.elements.push(document.querySelectorAll('*').length);
  return performance.now() - before;
};
result.expand_ms = timed(() => setAll(true));
const groups = model.boxes.filter((box) => box.kind === 'scope' && box.children.length > 50);
for (let i = 0; i < 40; ++i) {
  const group = groups[Math.floor(i * groups.length / 40)];
  result.ms.push(timed(() => view.show(group.children[i])));
  result.ms.push(timed(() => view.toggle(group)));
  result.ms.push(timed(() => view.toggle(group)));
  result.ms.push(timed(() => view.zoomMiddle(i % 2 ? 0.1 : 0.4)));
  result.ms.push(timed(() => view.moveTo(view.x - 300, view.y - 50)));
}
for (const scale of [1, 0.5, 0.25, 0.17, 0.12]) { // From readable to a view full of boxes.
  view.show(groups[3].children[0]);
  result.ms.push(timed(() => view.zoomMiddle(scale / view.scale)));
}
result.ms.push(timed(() => view.fit()));
return result;
)js";

}  // namespace gangway
