// Light or dark: the system's choice, until the button is pressed. Parts that use colours of their
// own are then drawn again.
// The query is the same one each time that the script runs. The browser keeps every query that has
// a listener, and with it the listener's page.
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
