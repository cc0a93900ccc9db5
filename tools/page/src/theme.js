// Light or dark: what the system says, until the button is pressed. What is drawn in colours of its
// own is drawn again.
// One for all the times that the script runs: the browser keeps each that somebody listens to, and
// so the page that listens.
const darkSystem = (window.gangwayDarkSystem ??= matchMedia('(prefers-color-scheme: dark)'));

export function listenToTheme(button, drawAgain) {
  const { dataset } = document.documentElement;
  const showTheme = (theme) => {
    dataset.theme = theme;
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    drawAgain();
  };
  const ofSystem = () => (darkSystem.matches ? 'dark' : 'light');
  showTheme(dataset.theme ?? ofSystem());
  darkSystem.onchange = () => { if (!dataset.chosen) showTheme(ofSystem()); };
  button.addEventListener('click', () => {
    dataset.chosen = 'yes';
    showTheme(dataset.theme === 'dark' ? 'light' : 'dark');
  });
}
