// The tray of the list of grids says what is ticked and waits for two. Without this file it is a plain form.
const tray = document.querySelector("[data-tray]");
const words = tray?.querySelector("[data-tray-words]");
const go = tray?.querySelector("[type=submit]");

function tell() {
  const boxes = [...document.querySelectorAll("[data-pick]")];
  const picked = boxes.filter((box) => box.checked);
  for (const box of boxes) box.closest("tr").classList.toggle("hr-pick", box.checked);
  const kind = ["none", "one", "two"][picked.length] ?? "more";
  const named = picked.map((box) => box.value);
  words.textContent = tray.dataset[kind]
    .replace("%n", picked.length).replace("%1", named[0]).replace("%2", named[1]);
  go.disabled = picked.length !== 2;
  tray.toggleAttribute("data-idle", picked.length === 0);
}

if (tray) {
  document.addEventListener("change", (event) => { if (event.target.matches("[data-pick]")) tell(); });
  tray.addEventListener("reset", () => setTimeout(tell));
  addEventListener("pageshow", tell);
  tell();
}
