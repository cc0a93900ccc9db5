// Calls `act` when the size of an element changes, until it leaves the page: the browser keeps an
// observer, and all that its function knows, as long as it observes.

export function whenResized(element, act) {
  const observer = new ResizeObserver(() => {
    if (element.isConnected) act();
    else observer.disconnect();
  });
  observer.observe(element);
}
