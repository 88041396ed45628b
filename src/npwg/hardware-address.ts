/**
 * A hardware address of one of these lengths in bytes, in lower-case colon form; else undefined.
 * Accepts the forms of Go's `net.ParseMAC`: with colons, hyphens, or dots between groups of four.
 */
export function parseHardwareAddress(
  text: string,
  byteLengths: readonly number[],
): string | undefined {
  const pairs = text.includes(".") ? splitGroups(text) : splitPairs(text);
  if (pairs === undefined || !byteLengths.includes(pairs.length)) return undefined;
  return pairs.join(":").toLowerCase();
}

function splitPairs(text: string): string[] | undefined {
  const pairs = text.split(text.includes("-") ? "-" : ":");
  return pairs.every((pair) => /^[0-9a-fA-F]{2}$/.test(pair)) ? pairs : undefined;
}

function splitGroups(text: string): string[] | undefined {
  const groups = text.split(".");
  if (!groups.every((group) => /^[0-9a-fA-F]{4}$/.test(group))) return undefined;
  return groups.flatMap((group) => [group.slice(0, 2), group.slice(2)]);
}
