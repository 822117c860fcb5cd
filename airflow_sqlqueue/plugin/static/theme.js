// Before the first paint: light or dark as Airflow around this page, else as the system.
(() => {
  const root = document.documentElement;
  let around = null;
  try {
    if (parent !== window) around = parent.document.documentElement;
  } catch {
    // A frame of another origin cannot be read.
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const says = (theme) => Boolean(around?.classList.contains(theme));
  const sync = () => {
    const dark = says("dark") || (!says("light") && system.matches);
    root.dataset.theme = dark ? "dark" : "light";
  };
  sync();
  system.addEventListener("change", sync);
  if (around) new parent.MutationObserver(sync).observe(around, { attributes: true, attributeFilter: ["class"] });
})();
