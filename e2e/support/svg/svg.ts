/** Attributes of an element, in their order. */
export type Attributes = Readonly<Record<string, string | number>>;

/** An SVG element; text in it is escaped with {@link text}. */
export function element(name: string, attributes: Attributes, ...children: string[]): string {
  const written = Object.entries(attributes).map(
    ([key, value]) => ` ${key}="${typeof value === "number" ? round(value) : escapeText(value)}"`,
  );
  const open = `<${name}${written.join("")}`;
  return children.length === 0 ? `${open}/>` : `${open}>${children.join("")}</${name}>`;
}

/** A line of text at a point. */
export function text(content: string, at: { x: number; y: number } & Attributes): string {
  return element("text", at, escapeText(content));
}

/** What is shown when the pointer is on the element that has it. */
export function tooltip(content: string): string {
  return element("title", {}, escapeText(content));
}

/** A whole picture, on white: it is looked at on pages of any colour. */
export function picture(
  size: { width: number; height: number; title: string },
  ...children: string[]
): string {
  const { width, height, title } = size;
  const attributes = {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "font-family": "Helvetica, Arial, DejaVu Sans, sans-serif",
    "font-size": 12,
    fill: "#202124",
  };
  const background = element("rect", { width, height, fill: "#ffffff" });
  return `${element("svg", attributes, tooltip(title), background, ...children.map((c) => `\n${c}`))}\n`;
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escapeText(value: string): string {
  return value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
