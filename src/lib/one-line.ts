/** The longest part of another program's message that is processed. @internal */
export const messageMax = 4096;

/** Joins the lines of a text by single spaces. */
export function joinLines(text: string): string {
  const lines = text.split(/[\r\n]/).map((line) => line.trim());
  return lines.filter((line) => line !== "").join(" ");
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
