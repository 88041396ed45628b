/** The most characters of another program's message that are looked at, and passed on. @internal */
export const messageMax = 4096;

/** A text in one line: line ends, with the white space around them, become single blanks. */
export function joinLines(text: string): string {
  const lines = text.split(/[\r\n]/).map((line) => line.trim());
  return lines.filter((line) => line !== "").join(" ");
}

/**
 * The message of another program in one line, cut to {@link messageMax} characters before anything
 * else is done with it: a delegate may print megabytes, such as its pod's own arguments.
 */
export function oneLine(message: string): string {
  if (message.length <= messageMax) return joinLines(message);
  return `${joinLines(message.slice(0, messageMax))}…`;
}
