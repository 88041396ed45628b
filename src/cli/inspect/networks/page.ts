import { hash } from "node:crypto";

const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 1.5rem auto; max-width: 80rem; padding: 0 1rem }
h1, h2 { line-height: 1.2 }
input { font: inherit; padding: .3rem .5rem; width: min(30rem, 100%) }
table { border-collapse: collapse }
th, td { border: 1px solid GrayText; padding: .15rem .5rem; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere }
.wide { margin: .5rem 0; overflow: auto }
th { white-space: nowrap }
.no { font-weight: bold; outline: 2px solid; outline-offset: -2px }
summary { cursor: pointer; padding: .2rem 0 }
`;

/** Only textContent: what pods and definitions contain is text. */
const script = String.raw`
const { made, networks, unanswered, rows } = JSON.parse(document.getElementById("data").textContent);
// One by one: a call has a limited number of arguments.
const append = (to, children) => { for (const each of children.flat()) to.append(each); };
const element = (tag, text, ...children) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  append(made, children);
  return made;
};
const names = (list) =>
  list.slice(0, 5).join(", ") + (list.length > 5 ? " and " + (list.length - 5) + " more" : "");
const groups = (items, keyOf) => {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(item);
  }
  return found;
};
const table = (head, lines) => {
  const cell = (each) => (each instanceof Node ? each : element("td", each));
  const body = lines.map((cells) => element("tr", undefined, cells.map(cell)));
  const heads = head.map((each) => element("th", each));
  heads.forEach((each) => { each.scope = "col"; });
  const wide = element("div", undefined, element("table", undefined,
    element("thead", undefined, element("tr", undefined, heads)),
    element("tbody", undefined, body)));
  wide.className = "wide";
  wide.tabIndex = 0;
  return wide;
};
const limited = (head, lines, max) => {
  const shown = [table(head, lines.slice(0, max))];
  if (lines.length > max) shown.push(element("p", max + " of " + lines.length + " are shown."));
  return shown;
};
const section = (id, ...content) => {
  const made = document.getElementById(id);
  made.replaceChildren();
  append(made, content);
};
const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");

const podsOf = groups(rows, ([network]) => network);
const known = new Set(networks.map(({ network }) => network));
const others = [...podsOf.keys()].filter((network) => !known.has(network));
// Pods can invent them: their number has no other limit.
const othersMax = 200;
const all = [...networks, ...others.slice(0, othersMax).map((network) => ({ network, nodes: [] }))];
for (const each of all) {
  each.yes = each.nodes.filter(({ usable }) => usable).map(({ node }) => node);
  each.missing = each.nodes.filter(({ usable }) => !usable);
}

const why = (missing) =>
  [...groups(missing, ({ details }) => details ?? "")].map(([details, nodes]) =>
    names(nodes.map(({ node }) => node)) + ": " + details);
const lacking = all.filter(({ missing }) => missing.length > 0)
  .sort((a, b) => a.yes.length - b.yes.length);
const problems = [
  ...unanswered.map(({ node, reason }) => [node, "does not answer", reason]),
  ...lacking.map(({ network, yes, nodes, missing }) => [network,
    yes.length === 0 ? "no node" : "only " + yes.length + " of " + nodes.length + " nodes",
    why(missing).join("; ")]),
];
section("problems", problems.length === 0 ? element("p", "none")
  : table(["Network or node", "Can be used on", "Why"], problems));

const usableOn = new Map();
networks.forEach(({ nodes }, at) => nodes.forEach(({ node, usable }) => {
  if (!usableOn.has(node)) usableOn.set(node, Array(networks.length).fill("?"));
  usableOn.get(node)[at] = usable ? "yes" : "no";
}));
const alike = [...groups(usableOn.keys(), (node) => usableOn.get(node).join())];
const columns = alike.slice(0, 40);
const cellOf = (text) => {
  const cell = element("td", text);
  if (text === "no") cell.className = "no";
  return cell;
};
section("matrix",
  table(["Network", ...columns.map(([, nodes]) => names(nodes))],
    networks.map(({ network }, at) =>
      [network, ...columns.map(([, [node]]) => cellOf(usableOn.get(node)[at]))])),
  element("p", "Nodes with the same networks share a column."
    + (alike.length > 40 ? " " + (alike.length - 40) + " further columns are not shown." : "")));

const head = ["Pod", "Interface", "Addresses", "MAC", "Node", "Since"];
section("pods", all.map(({ network, yes, nodes }) => {
  const pods = podsOf.get(network) ?? [];
  const where = nodes.length > 0 ? ", " + yes.length + " of " + plural(nodes.length, "node") : "";
  const details = element("details", undefined,
    element("summary", network + ": " + plural(pods.length, "pod") + where));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1)
      details.append(...limited(head, pods.map(([, ...cells]) => cells), 1000));
  });
  return details;
}), others.length > othersMax ? element("p", (others.length - othersMax)
  + " further networks without a definition are not shown, but found.") : []);

const texts = rows.map((row) => row.join("\n").toLowerCase());
const search = document.getElementById("search");
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  const found = wanted === "" ? [] : rows.filter((_, i) => texts[i].includes(wanted));
  section("found", ...(wanted === "" ? [] : [element("p", plural(found.length, "interface") + " found"),
    ...limited(["Network", ...head], found, 200)]));
});
document.getElementById("made").textContent = made + ": " + plural(networks.length, "definition")
  + ", " + plural(usableOn.size, "node") + ", " + plural(new Set(rows.map(([, pod]) => pod)).size, "pod");
`;

/**
 * The page of `kubectl plexus networks --html`, which loads nothing. kubectl plexus replaces the line
 * `@DATA@` with what it knows, as JSON without `<`.
 */
export function networksPage(): string {
  const allow = (text: string): string => `'sha256-${hash("sha256", text, "base64")}'`;
  const policy = `default-src 'none'; base-uri 'none'; form-action 'none'; style-src ${allow(style)}; script-src ${allow(script)}`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<title>Networks</title>
<style>${style}</style>
<h1>Networks</h1>
<p id="made"></p>
<p><label>Pod, address, MAC, node or network: <input id="search" type="search" autofocus></label></p>
<div id="found" aria-live="polite"></div>
<h2>Problems</h2>
<div id="problems"></div>
<h2>Where networks can be used</h2>
<div id="matrix"></div>
<h2>Who is in them</h2>
<div id="pods"></div>
<script type="application/json" id="data">
@DATA@
</script>
<script>${script}</script>
</html>`;
}
