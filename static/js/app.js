// Small behaviours of every page: theme, menus, dialogs, the stale mark of live pages. Everything works without them.
const html = document.documentElement;
const STALE_AFTER_MS = 15000;

function setTheme(theme) {
  html.dataset.theme = theme;
  try { localStorage.setItem("hr-theme", theme); } catch { /* the choice then holds for this page only */ }
  document.dispatchEvent(new CustomEvent("hr:theme"));
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.hr-menu[open]")) if (menu !== except) menu.open = false;
}

function closeSide() {
  if (location.hash !== "#side") return;
  location.hash = "#main";
}

document.addEventListener("click", (event) => {
  const at = (selector) => event.target.closest(selector);
  closeMenus(at("details.hr-menu"));
  if (at("[data-theme-toggle]")) setTheme(html.dataset.theme === "dark" ? "light" : "dark");
  const opener = at("[data-open]");
  if (opener) {
    const dialog = document.getElementById(opener.dataset.open);
    if (dialog) { event.preventDefault(); dialog.showModal(); }
  }
  const closer = at("[data-close]");
  if (closer) closer.closest("dialog").close();
  const copier = at("[data-copy]");
  if (copier) navigator.clipboard?.writeText(copier.dataset.copy).then(() => { copier.dataset.copied = "1"; });
  if (location.hash === "#side" && !at(".hr-side, .hr-burger")) closeSide();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const field = document.querySelector("[data-find]");
    const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
    if (field && field.offsetParent && !typing) { event.preventDefault(); field.focus(); field.select(); }
    return;
  }
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details.hr-menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); } else closeSide();
});

// A dialog with an error in its form is rendered with data-open-now, so the person sees it again.
for (const dialog of document.querySelectorAll("dialog[data-open-now]")) dialog.showModal();

// A file that is larger than its page takes is told before it is sent, so that nothing typed beside it is lost.
document.addEventListener("change", (event) => {
  const field = event.target.closest?.("input[type=file][data-most-bytes]");
  if (!field) return;
  const most = Number(field.dataset.mostBytes), file = field.files[0];
  field.setCustomValidity(file && file.size > most ? field.dataset.tooLarge : "");
  if (file && file.size > most) field.reportValidity();
});

// Live pages: an element with data-live polls; its last answer (200 or 304) resets the clock, silence marks it stale.
// A hidden tab, or a server that answered 429, is asked only every ten seconds.
const SLOW_EVERY_MS = 10000;
const heard = new WeakMap(), asked = new WeakMap(), refused = new WeakSet();
document.addEventListener("htmx:before:request", (event) => {
  const live = event.target.closest?.("[data-live]");
  if (!live) return;
  const slow = document.hidden || refused.has(live);
  if (slow && Date.now() - (asked.get(live) || 0) < SLOW_EVERY_MS) { event.preventDefault(); return; }
  asked.set(live, Date.now());
});
function clock(now) {
  return new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit",
    timeZone: html.dataset.zone || "UTC" }).format(now);
}
document.addEventListener("htmx:after:request", (event) => {
  const live = event.target.closest?.("[data-live]");
  const status = event.detail?.ctx?.response?.status ?? event.detail?.ctx?.response?.raw?.status;
  if (!live) return;
  if (status === 429) refused.add(live); else refused.delete(live);
  if (!(status === 304 || (status >= 200 && status < 300))) return;
  heard.set(live, Date.now());
  requestAnimationFrame(() => {
    for (const mark of live.querySelectorAll("[data-updated]")) mark.textContent = clock(new Date());
  });
});
setInterval(() => {
  for (const live of document.querySelectorAll("[data-live]")) {
    if (!live.hasAttribute("hx-trigger")) { live.removeAttribute("data-stale"); continue; }
    if (!heard.has(live)) heard.set(live, Date.now());
    live.toggleAttribute("data-stale", Date.now() - heard.get(live) > STALE_AFTER_MS);
  }
}, 1000);

// The links to the parts of a long page say which part is read: the last one whose head has passed the upper third.
const parts = [...document.querySelectorAll(".hr-subnav a[href^='#']")]
  .map((link) => [link, document.getElementById(link.hash.slice(1))]).filter(([, part]) => part);
function markPart() {
  const line = window.innerHeight / 3;
  const tops = parts.map(([, part]) => part.getBoundingClientRect().top);
  const passed = tops.reduce((best, top, at) => (top <= line && (best < 0 || top >= tops[best]) ? at : best), -1);
  for (const [at, [link]] of parts.entries()) {
    if (at === Math.max(passed, 0)) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  }
}
if (parts.length) {
  let waits = false;
  const soon = () => { if (!waits) { waits = true; requestAnimationFrame(() => { waits = false; markPart(); }); } };
  document.addEventListener("scroll", soon, { passive: true });
  markPart();
}
