// Shows only the numbers that the chosen distribution needs. Without this file all of them are shown and still work.
const NEEDS = {
  fixed: ["typical"],
  uniform: ["low", "high"],
  normal: ["typical", "spread", "low", "high"],
  lognormal: ["typical", "spread", "low", "high"],
  quantiles: ["points"],
};

function show(select) {
  const stem = select.name.replace(/_kind$/, "");
  for (const name of ["typical", "spread", "low", "high", "points"]) {
    const input = document.getElementsByName(`${stem}_${name}`)[0];
    input.closest(".hr-f").hidden = !(NEEDS[select.value] ?? []).includes(name);
  }
}

for (const select of document.querySelectorAll("[data-class] select[name$='_kind']")) {
  select.addEventListener("change", () => show(select));
  show(select);
}
