// Assembles the page. window.gangway is for tests and for the browser's console.
import { addCurvesPanel } from './curves.js';
import { Details } from './details.js';
import { DevicePlan } from './device_plan.js';
import { listenToKeys } from './keyboard.js';
import { attachLive } from './live.js';
import { Minimap } from './minimap.js';
import { Model } from './model.js';
import { Overlays } from './overlays.js';
import { Panels } from './panels.js';
import { Places } from './places.js';
import { Search } from './search.js';
import { listenToTheme } from './theme.js';
import { Timeline } from './timeline.js';
import { View } from './view.js';

// It is a function, since a browser keeps a script's top-level names, and a served page's script
// runs again and again.
function start() {
  const byId = (id) => document.getElementById(id);
  const shownDocument = JSON.parse(byId('document').textContent);
  const { program, plan, layout, timeline, curves: points } = shownDocument;
  const model = new Model(program, layout, plan);
  const view = new View(model, byId('picture'));
  const search = new Search(view, byId('search'), byId('found'));
  const details = new Details(view, byId('details'));
  const places = new Places(model);
  const overlays = new Overlays(view, byId('overlay'), byId('legend'), timeline, places);
  const panels = new Panels(byId('tabs'), byId('panel'));
  const minimap = new Minimap(view, byId('minimap'));
  const curves = points ? addCurvesPanel(panels, points) : null;
  const devicePlan = plan ? new DevicePlan(panels, view, places, plan) : null;
  const spans = timeline ? new Timeline(panels, view, places, timeline) : null;
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
  if (curves) panels.choose('Curves');
  view.update();
  view.fit();
  view.draw();
  window.gangway = {
    program, plan, layout, timeline, model, view, search, details, overlays, panels, places, minimap,
    devicePlan, spans, curves, setAll, drawnAt: performance.now(),
  };
  attachLive(window.gangway, shownDocument);
}

start();
