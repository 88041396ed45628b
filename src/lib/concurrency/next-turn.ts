/** Resolves once everything that is due now has been done: what was received is read, what was written is sent. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
