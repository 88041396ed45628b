/** The longest part of another program's message that is processed. @internal */
export const messageMax = 4096;

/**
 * A text whose control and format characters, and separators of lines, are escaped as in JSON, e.g.
 * `\u202e`: a terminal executes them, or a reader cannot see them. JSON keeps its meaning.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);
}

/** The same for a text of several lines, which may also have tabs. */
export function printableLines(text: string): string {
  return text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);
}

function escaped(character: string): string {
  const units = character.split("").map((unit) => unit.charCodeAt(0).toString(16).padStart(4, "0"));
  return units.map((digits) => `\\u${digits}`).join("");
}

/** Joins the lines of a text by single spaces; the result is {@link printable}. */
export function joinLines(text: string): string {
  const lines = text.split(/[\r\n]/).map((line) => line.trim());
  return printable(lines.filter((line) => line !== "").join(" "));
}

/** Another program's message on one line; cut first, as a delegate may print megabytes. */
export function oneLine(message: string): string {
  if (message.length <= messageMax) return joinLines(message);
  return `${joinLines(message.slice(0, messageMax))}…`;
}

/** A text that is cut to a length, so that its reader sees that it is. */
export function shortened(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}
