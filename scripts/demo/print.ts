/** Output for people: short, plain ASCII, only headings at the left margin. */

/** Whether a step has begun on this line and not ended. */
let isStepOpen = false;

/** A heading with what is about to happen. */
export function heading(text: string): void {
  process.stdout.write(`\n== ${text} ==\n`);
}

/** Lines below a heading. */
export function print(...texts: string[]): void {
  for (const text of texts) {
    for (const line of text.trimEnd().split("\n")) process.stdout.write(`   ${line.trimEnd()}\n`);
  }
}

/**
 * Runs a step. Prints its description at the beginning; its outcome, if any, and its duration at the end.
 */
export async function timed<T>(
  text: string,
  step: () => Promise<T>,
  outcome: (value: T) => string = () => "",
): Promise<T> {
  process.stdout.write(`   ${text}`);
  isStepOpen = true;
  const began = performance.now();
  const value = await step();
  const milliseconds = (performance.now() - began).toFixed(0).padStart(6);
  const rest = outcome(value).padEnd(72 - text.length);
  process.stdout.write(`${rest} ${milliseconds} ms\n`);
  isStepOpen = false;
  return value;
}

/** Ends the line of a step that failed. */
export function endLine(): void {
  if (isStepOpen) process.stdout.write("\n");
}
