// Runs before the first paint: the chosen theme, else the system's, now and when that changes. The toggle is shown only
// where scripts run.
(function () {
  var html = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  function chosen() {
    try { return localStorage.getItem("hr-theme"); } catch (error) { return null; /* storage may be closed to us: follow the system */ }
  }
  function follow() { html.dataset.theme = chosen() || (dark.matches ? "dark" : "light"); }
  follow();
  html.dataset.js = "1";
  dark.addEventListener("change", function () { follow(); document.dispatchEvent(new CustomEvent("hr:theme")); });
})();
