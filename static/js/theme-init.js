// Runs before the first paint: the chosen theme, else the system's. The toggle is shown only where scripts run.
(function () {
  var html = document.documentElement, chosen = null;
  try { chosen = localStorage.getItem("hr-theme"); } catch (error) { /* storage may be closed to us: follow the system */ }
  html.dataset.theme = chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  html.dataset.js = "1";
})();
