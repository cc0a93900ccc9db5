// Puts the page together. window.gangway is for tests and for the browser's console.
import { Details } from './details.js';
import { DevicePlan } from './device_plan.js';
import { listenToKeys } from './keyboard.js';
import { Minimap } from './minimap.js';
import { Model } from './model.js';
import { Overlays } from './overlays.js';
import { Panels } from './panels.js';
import { Search } from './search.js';
import { listenToTheme } from './theme.js';
import { View } from './view.js';

const byId = (id) => document.getElementById(id);
const { program, plan, layout } = JSON.parse(byId('document').textContent);
const model = new Model(program, layout, plan);
const view = new View(model, byId('picture'));
const search = new Search(view, byId('search'), byId('found'));
const details = new Details(view, byId('details'));
const overlays = new Overlays(view, byId('overlay'), byId('legend'));
const panels = new Panels(byId('tabs'), byId('panel'));
const minimap = new Minimap(view, byId('minimap'));
const devicePlan = plan ? new DevicePlan(panels, view, plan) : null;
document.title = `${model.root.label} - Gangway`;

const setAll = (expanded) => {
  model.setAll(expanded);
  if (!model.isVisible(view.selected)) view.select(view.visible(view.selected));
  view.update();
  view.fit();
};

listenToKeys(view, search, byId('said'));
listenToTheme(byId('theme'), () => {
  view.soon();
  panels.refresh(panels.open);
});
byId('expand').addEventListener('click', () => setAll(true));
byId('collapse').addEventListener('click', () => setAll(false));
byId('fit').addEventListener('click', () => view.fit());
view.update();
view.fit();
view.draw();
window.gangway = {
  program, plan, layout, model, view, search, details, overlays, panels, minimap, devicePlan, setAll,
  drawnAt: performance.now(),
};
