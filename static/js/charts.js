// Draws every figure the server put in the page: <div class="hr-chart" data-fig="id of its JSON">.
// Figures name theme colours as var(--token); the value of the theme in force is put in when it is drawn.
const html = document.documentElement;
const figures = [...document.querySelectorAll("[data-fig]")];
const NARROW_PX = 520, UPPER = [0.5, 1], LOWER = [0, 0.27];

function themed(json) {
  const style = getComputedStyle(html);
  return JSON.parse(json.replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => style.getPropertyValue(name).trim() || "#888"));
}

const within = ([low, high], share) => low + share * (high - low);

// Two panels side by side become two rows. What stands in the second panel is known by its axis or its place on paper.
function stack(layout) {
  const { xaxis, yaxis, xaxis2, yaxis2 } = layout;
  if (!xaxis2 || !yaxis2) return;
  const [start, end] = xaxis2.domain, firstEnd = (xaxis.domain || [0, 1])[1];
  const second = (item, x) => item.xref === "x2" || item.yref === "y2" || (item.xref === "paper" && x >= start - 0.02);
  for (const note of layout.annotations || []) {
    const below = second(note, note.x);
    if (note.yref === "paper") note.y = within(below ? LOWER : UPPER, note.y);
    if (note.xref === "paper") note.x = below ? Math.max(0, (note.x - start) / (end - start)) : Math.min(1, note.x / firstEnd);
  }
  for (const shape of layout.shapes || []) {
    const below = second(shape, shape.x0);
    if (shape.yref === "paper") for (const key of ["y0", "y1"]) shape[key] = within(below ? LOWER : UPPER, shape[key]);
    if (shape.xref === "paper") for (const key of ["x0", "x1"]) shape[key] = below ? (shape[key] - start) / (end - start) : shape[key] / firstEnd;
  }
  layout.annotations = (layout.annotations || []).filter((note) => note.name !== "wide");
  Object.assign(xaxis, { domain: [0, 1], anchor: "y" });
  Object.assign(xaxis2, { domain: [0, 1], anchor: "y2" });
  yaxis.domain = UPPER;
  yaxis2.domain = LOWER;
}

// Figures that did not travel with the page, by their id.
const fetched = new Map();
const textOf = (id) => document.getElementById(id)?.textContent ?? fetched.get(id);

async function load(id, url) {
  if (textOf(id)) return true;
  const answer = await fetch(url, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return false;
  fetched.set(id, await answer.text());
  return true;
}

function draw(box, how) {
  const source = textOf(box.dataset.fig);
  if (!source) return null;
  const figure = themed(source);
  if (box.clientWidth < NARROW_PX && box.dataset.narrow === "stack") stack(figure.layout);
  if (how === "newPlot") box.replaceChildren();
  return Plotly[how](box, figure.data, figure.layout, { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false });
}

const drawAll = (how) => Promise.all(figures.map((box) => draw(box, how)));

async function start() {
  if (!window.Plotly) return;            // the numbers and tables of the page stand without it
  await document.fonts.ready;
  await drawAll("newPlot");
  html.dataset.drawn = "1";
}

document.addEventListener("hr:theme", () => drawAll("react"));
document.addEventListener("click", async (event) => {
  const pick = event.target.closest("[data-show-fig]");
  if (!pick || !html.dataset.drawn) return;   // a link goes where it leads
  event.preventDefault();
  if (!(await load(pick.dataset.showFig, pick.dataset.src))) { location.assign(pick.href); return; }
  for (const other of pick.parentElement.children) {
    other.toggleAttribute("aria-current", false);
    if (other.dataset.panel) document.getElementById(other.dataset.panel).hidden = other !== pick;
  }
  pick.setAttribute("aria-current", "true");
  history.replaceState(null, "", pick.href);
  const box = document.getElementById(pick.dataset.for);
  box.dataset.fig = pick.dataset.showFig;
  if (pick.dataset.label) box.setAttribute("aria-label", pick.dataset.label);
  draw(box, "react");
});

// A window that crosses the narrow width needs the other layout, not only another size.
let narrow = innerWidth < 620;
addEventListener("resize", () => {
  if (innerWidth < 620 === narrow) return;
  narrow = !narrow;
  drawAll("react");
});

// Paper is light. The theme that was chosen comes back afterwards.
let before = null;
addEventListener("beforeprint", () => {
  before = html.dataset.theme;
  html.dataset.theme = "light";
  drawAll("react").then(() => figures.forEach((box) => box.data && Plotly.Plots.resize(box)));
});
addEventListener("afterprint", () => {
  if (before) html.dataset.theme = before;
  drawAll("react");
});
start();
