// Sections: a link opens the section that it leads to, two buttons open and close all of them, and everything is open in
// print.

const sections = () => [...document.querySelectorAll("main details.section")];
const menu = document.querySelector("nav details");

// Opens all closed parts around an element, and brings the heading of its section into view.
function reveal(id) {
  const target = document.getElementById(id);
  if (!target) return;
  const section = target.closest("details.section") ?? target.querySelector(":scope > details.section");
  const scroll = () => (target.matches(".inside") ? section : target).scrollIntoView();
  // The example browser gets its height only when its section opens, and before that the page may be too short to scroll.
  if (section && !section.open) section.addEventListener("toggle", () => requestAnimationFrame(scroll), { once: true });
  if (section) section.open = true;
  for (let around = target; around; around = around.parentElement) if (around.matches("details")) around.open = true;
  scroll();
}

// What comes after a question mark is for the example browser: #examples?run=…
const placeOf = (hash) => decodeURIComponent(hash.slice(1).split("?")[0]);

let place = placeOf(location.hash);
addEventListener("hashchange", () => {
  const before = place;
  place = placeOf(location.hash);
  // Another search among the same examples needs no scrolling.
  if (place && (place !== before || !document.getElementById(place)?.querySelector("details.section")?.open)) reveal(place);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  if (menu) menu.open = false;
  // A second click on the same link does not change the address.
  if (link.hash === location.hash) reveal(placeOf(link.hash));
});
if (place) reveal(place);

for (const button of document.querySelectorAll("nav button[data-open]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.dataset.open === "true";
    for (const details of sections()) details.open = open;
    // The parts inside sections, too, but not single examples and the configurations of single runs.
    for (const details of document.querySelectorAll("main details.part")) details.open = open || details.hasAttribute("data-open");
    if (menu) menu.open = false;
  });
}

// Browsers without support for ::details-content print only what is open.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("main details:not([open])")].filter((details) => !details.closest(".browser, .unprinted"));
  for (const details of closed) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
  closed = [];
});
