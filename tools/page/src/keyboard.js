// Keys, while the picture has the focus: arrows go from box to box, Enter opens and closes.
export function listenToKeys(view, search, said) {
  const { model } = view;
  const beside = (step) => {
    const { parent } = view.selected;
    if (!parent) return;
    const at = parent.children.indexOf(view.selected) + step;
    if (parent.children[at]) view.show(parent.children[at]);
  };
  const actions = {
    ArrowDown: () => beside(1),
    ArrowUp: () => beside(-1),
    ArrowLeft: () => { if (view.selected.parent) view.show(view.selected.parent); },
    ArrowRight: () => { if (model.isGroup(view.selected)) view.show(view.selected.children[0]); },
    Enter: () => view.toggle(view.selected),
    ' ': () => view.toggle(view.selected),
    '+': () => view.zoomMiddle(1.25),
    '-': () => view.zoomMiddle(0.8),
    0: () => view.fit(),
  };
  view.svg.addEventListener('keydown', (event) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    action();
    event.preventDefault();
  });
  document.body.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target === search.field) return;
    search.field.focus();
    event.preventDefault();
  });
  view.whenSelected.push((box) => { said.textContent = `${box.kind} ${box.label}`; });
}
