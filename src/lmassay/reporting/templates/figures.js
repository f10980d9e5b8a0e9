// Each figure can be saved as an SVG file. On the page, the style sheet colours the shapes; in a file, they need their
// own attributes: the colours of the light page, on white. A line of text is 7 points high, so 400 units fit a column.
{
const SVG = "http://www.w3.org/2000/svg";
const MILLIMETRES_PER_UNIT = (7 / 12) * (25.4 / 72);
const PAINT = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "paint-order", "font-weight", "font-style", "text-anchor",
];
const FONTS = "'Segoe UI', 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans', 'Noto Sans CJK KR', 'Malgun Gothic', sans-serif";

/** Returns the rules of the page outside media queries, sorted so that later ones win, and the variables of the root. */
function lightStyle() {
  const rules = [];
  const variables = new Map();
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (!(rule instanceof CSSStyleRule)) continue;
      for (const selector of rule.selectorText.split(",").map((text) => text.trim())) {
        if (selector === ":root") addVariables(rule.style, variables);
        else rules.push({ selector, style: rule.style, weight: specificity(selector) });
      }
    }
  }
  // The background of a file is white.
  variables.set("--page", "#ffffff").set("--card", "#ffffff");
  rules.sort((a, b) => a.weight - b.weight);
  return { rules, variables };
}

function specificity(selector) {
  const classes = (selector.match(/[.[:#]/g) || []).length;
  const types = (selector.match(/(^|\s)[a-z]/g) || []).length;
  return 100 * classes + types;
}

function addVariables(style, variables) {
  for (const name of style) {
    if (name.startsWith("--")) variables.set(name, style.getPropertyValue(name).trim());
  }
}

function resolved(value, variables) {
  let text = value;
  for (let depth = 0; depth < 10 && text.includes("var("); depth += 1) {
    text = text.replace(/var\(\s*(--[\w-]+)[^()]*\)/g, (_, name) => variables.get(name) || "none");
  }
  return text.trim().replace(/px$/, "");
}

/** Write the styles of a shape of the page, and of all inside it, into the attributes of its copy. */
function paint(shape, copy, rules, outerVariables) {
  const variables = new Map(outerVariables);
  const values = new Map();
  for (const { selector, style } of rules) {
    if (!shape.matches(selector)) continue;
    addVariables(style, variables);
    for (const name of PAINT) {
      if (style.getPropertyValue(name)) values.set(name, style.getPropertyValue(name));
    }
  }
  for (const [name, value] of values) copy.setAttribute(name, resolved(value, variables));
  const children = [...copy.children];
  [...shape.children].forEach((child, position) => paint(child, children[position], rules, variables));
  copy.removeAttribute("class");
}

function svgFile(drawing, caption) {
  const { rules, variables } = lightStyle();
  const copy = drawing.cloneNode(true);
  paint(drawing, copy, rules, variables);
  // Browsers show the title of a text on hovering; other programs would draw it as a part of the text.
  for (const title of copy.querySelectorAll("text > title")) title.remove();
  const { width, height } = drawing.viewBox.baseVal;
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", `${(width * MILLIMETRES_PER_UNIT).toFixed(2)}mm`);
  copy.setAttribute("height", `${(height * MILLIMETRES_PER_UNIT).toFixed(2)}mm`);
  copy.setAttribute("font-family", FONTS);
  copy.setAttribute("font-size", "12");
  const description = document.createElementNS(SVG, "desc");
  description.textContent = caption;
  const background = document.createElementNS(SVG, "rect");
  for (const [name, value] of [["width", width], ["height", height], ["fill", "#ffffff"]]) background.setAttribute(name, value);
  copy.prepend(description, background);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

function fileName(label) {
  const words = label.normalize("NFC").toLowerCase().replace(/[^\p{L}\p{N}_]+/gu, "-");
  return `${words.slice(0, 60).replace(/^-+|-+$/g, "") || "figure"}.svg`;
}

for (const figure of document.querySelectorAll("figure")) {
  const drawing = figure.querySelector("svg");
  if (!drawing) continue;
  const label = drawing.getAttribute("aria-label") || "";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save-figure";
  button.textContent = "Save as SVG";
  button.setAttribute("aria-label", `Save as SVG: ${label}`);
  button.addEventListener("click", () => {
    const caption = figure.querySelector("figcaption");
    const file = new Blob([svgFile(drawing, caption ? caption.textContent : "")], { type: "image/svg+xml" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = fileName(label);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  figure.append(button);
}
}
