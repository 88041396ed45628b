/** Writes for people: short, plain ASCII, the left margin for headings alone. */

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

/** A step that is done, with its duration at the right. */
export function done(text: string, milliseconds: number): void {
  process.stdout.write(`   ${text.padEnd(72)} ${milliseconds.toFixed(0).padStart(6)} ms\n`);
}

/** Runs a step and prints how long it took. */
export async function timed<T>(text: string, step: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const value = await step();
  done(text, performance.now() - began);
  return value;
}
