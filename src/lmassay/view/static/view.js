"use strict";
// Keeps the page up to date, and makes the list of runs and its controls convenient. Everything else works without it.
(() => {
  const INTERVAL = 1500;
  const LONGEST_INTERVAL = 10000;
  const body = document.body;
  const pulse = document.getElementById("pulse");

  // --- live parts ---

  let version = body.dataset.version;
  let interval = INTERVAL;

  const say = (text, kind) => {
    if (!pulse || pulse.textContent === text) return;
    pulse.textContent = text;
    pulse.className = `pulse ${kind}`;
  };

  // Replaces a part of the page, and keeps what the user has selected, opened or focused in it.
  const replacePart = (part, html) => {
    const key = (box) => `${box.name}=${box.value}`;
    const checked = new Set([...part.querySelectorAll("input:checked")].map(key));
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((details) => details.id));
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const address = focused && focused.getAttribute("href");
    const typed = [...part.querySelectorAll("input[type=search]")].filter((field) => field.value !== field.defaultValue)
      .map((field) => [field.id, field.value]);
    const scrolled = [...part.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
    part.innerHTML = html;
    part.querySelectorAll("input[type=checkbox][name]").forEach((box) => { box.checked = checked.has(key(box)); });
    part.querySelectorAll("details[id]").forEach((details) => { if (open.has(details.id)) details.open = true; });
    typed.forEach(([id, text]) => { const field = document.getElementById(id); if (field) field.value = text; });
    part.querySelectorAll(".scroll").forEach((element, i) => { element.scrollLeft = scrolled[i] || 0; });
    if (focused) {
      const same = focused.id ? document.getElementById(focused.id)
        : [...part.querySelectorAll("a[href]")].find((link) => link.getAttribute("href") === address);
      if (same) same.focus({ preventScroll: true });
    }
  };

  // Part of the page → its markup. Parts that did not change are left alone, with their focus and selection.
  const markupOfPart = new Map();
  const update = async () => {
    const separator = body.dataset.live.includes("?") ? "&" : "?";
    const response = await fetch(`${body.dataset.live}${separator}version=${encodeURIComponent(version)}`);
    if (response.status === 204) return "live";
    if (response.status === 403) return "The view was restarted. Open the address that the terminal shows now.";
    const answer = await response.json();
    if (!response.ok) return answer.problem || "This page cannot be updated.";
    version = answer.version;
    for (const part of document.querySelectorAll("[data-part]")) {
      const html = answer.parts[part.dataset.part];
      // A list that the user has just opened would be closed.
      const choosing = part.contains(document.activeElement) && document.activeElement.matches("select");
      if (html !== undefined && markupOfPart.get(part) !== html && !choosing) {
        markupOfPart.set(part, html);
        replacePart(part, html);
      }
    }
    selectionChanged();
    return "live";
  };

  const poll = async () => {
    // A page in the background is brought up to date when the user returns to it.
    if (!document.hidden) {
      try {
        const text = await update();
        say(text, text === "live" ? "on" : "off");
        interval = INTERVAL;
      } catch {
        say("The view has stopped; start lmassay view again.", "off");
        interval = Math.min(interval * 2, LONGEST_INTERVAL);
      }
    }
    setTimeout(poll, interval);
  };
  if (body.dataset.live) {
    say("live", "on");
    setTimeout(poll, INTERVAL);
  }

  // --- times ---

  const tick = () => {
    for (const time of document.querySelectorAll("time[data-since]")) {
      const seconds = Math.max(0, Math.round(Date.now() / 1000 - Number(time.dataset.since)));
      time.textContent = seconds < 90 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
    }
  };
  setInterval(tick, 1000);
  tick();

  // --- the selection ---

  const selection = document.getElementById("selection");
  const boxes = () => [...document.querySelectorAll("input[name=run][form=selection]")];

  function selectionChanged() {
    if (!selection) return;
    const count = boxes().filter((box) => box.checked).length;
    const label = selection.querySelector(".selected");
    const text = count ? `${count} run${count === 1 ? "" : "s"} selected` : "Select runs in the list";
    if (label.textContent !== text) label.textContent = text;
    selection.querySelectorAll("[data-needs]").forEach((button) => { button.disabled = count < Number(button.dataset.needs); });
    document.querySelectorAll("table.runs").forEach((table) => {
      const own = [...table.querySelectorAll("input[name=run]")];
      const all = table.querySelector("input.all");
      all.checked = own.every((box) => box.checked);
      all.indeterminate = !all.checked && own.some((box) => box.checked);
    });
  }

  document.addEventListener("change", (event) => {
    const target = event.target;
    if (target.matches("input.all")) {
      target.closest("table").querySelectorAll("input[name=run]").forEach((box) => { box.checked = target.checked; });
    }
    if (target.matches("input[type=checkbox]")) selectionChanged();
    if (target.matches(".controls select")) target.form.requestSubmit();
  });
  // Browsers restore checked boxes after the script has run when the user goes back to the page.
  addEventListener("pageshow", selectionChanged);
  selectionChanged();

  // --- forms and keys ---

  // Empty fields are left out of the address.
  document.addEventListener("submit", ({ target: form }) => {
    if (form.matches("form.controls")) for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => document.querySelectorAll("form.controls :disabled").forEach((field) => { field.disabled = false; }));

  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = { "/": "input[type=search]", ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" }[event.key];
    const element = target && document.querySelector(target);
    if (!element) return;
    event.preventDefault();
    if (event.key === "/") element.focus();
    else element.click();
  });
})();
