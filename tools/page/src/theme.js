// Light or dark: what the system says, until the button is pressed. What is drawn in colours of its
// own is drawn again.
export function listenToTheme(button, drawAgain) {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    drawAgain();
  };
  let chosen = false;
  show(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => {
    if (!chosen) show(dark.matches ? 'dark' : 'light');
  });
  button.addEventListener('click', () => {
    chosen = true;
    show(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  });
}
