// Calls `act` when the size of an element changes, until the element leaves the page. Then it stops
// the observer, since a browser keeps one, and all that its function refers to, while it observes.

export function whenResized(element, act) {
  const observer = new ResizeObserver(() => {
    if (element.isConnected) act();
    else observer.disconnect();
  });
  observer.observe(element);
}
