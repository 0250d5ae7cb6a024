// Dark or light; paper is light.

const isDark = () =>
  (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("kernel-trace-theme", document.documentElement.dataset.theme);
  } catch {
    /* not for files of some browsers */
  }
  view?.themed();
}

let themeOfScreen = null; // while printing: [the theme that was chosen]

/** Paper is light, and has every task. */
function print(isBegin) {
  if (isBegin === Boolean(themeOfScreen)) return;
  const { dataset } = document.documentElement;
  if (isBegin) {
    themeOfScreen = [dataset.theme];
    dataset.theme = "light";
  } else {
    if (themeOfScreen[0]) dataset.theme = themeOfScreen[0];
    else delete dataset.theme;
    themeOfScreen = null;
  }
  if (view instanceof Overview) view.draw(isBegin);
  else view?.themed();
}
