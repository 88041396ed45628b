const seen = new Set<string>();
let isNew = false;

/**
 * Notes how a reader refused its input. A message never given before, its numbers and quotations
 * aside, is taken for a sign that the input reached code that no other did.
 */
export function noteRefusal(error: unknown): void {
  const message = String(error).slice(0, 1000);
  const form = message.replaceAll(/"[^"]*"?/g, '""').replaceAll(/\d+/g, "0");
  if (seen.has(form)) return;
  seen.add(form);
  isNew = true;
}

/** Whether there was a new one since the last question. */
export function takeNovelty(): boolean {
  const was = isNew;
  isNew = false;
  return was;
}
