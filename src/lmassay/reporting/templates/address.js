// What a reader looks at, as the part of the address after "#": examples?run=…&state=error&search=winter&row=12.
// Texts are written out, so that a link is right even if the page is written again with other runs.

const FILTERS = ["task", "run", "state", "kind", "value", "search"];

function parameters(root) {
  const [place, query = ""] = location.hash.slice(1).split("?");
  return place === root.id ? new URLSearchParams(query) : null;
}

// "push" makes a step to which the Back button returns; without it, the present step is rewritten.
function remember(root, chosen, push) {
  const query = new URLSearchParams(chosen).toString();
  const hash = `#${root.id}${query ? `?${query}` : ""}`;
  if (hash === location.hash) return;
  try {
    history[push ? "pushState" : "replaceState"](null, "", hash);
  } catch {
    // A page inside another one may not change its address; then it cannot be linked to.
  }
}
