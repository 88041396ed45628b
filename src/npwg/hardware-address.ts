/**
 * A hardware address of one of these lengths in bytes, in lower-case colon form; else undefined.
 * Accepts the forms of Go's `net.ParseMAC`: with colons, hyphens, or dots between groups of four.
 */
export function parseHardwareAddress(
  text: string,
  byteLengths: readonly number[],
): string | undefined {
  const separator = [".", "-"].find((each) => text.includes(each)) ?? ":";
  const part = separator === "." ? /^[0-9a-f]{4}$/i : /^[0-9a-f]{2}$/i;
  const parts = text.split(separator);
  if (!parts.every((digits) => part.test(digits))) return undefined;
  const bytes = parts.join("").toLowerCase().match(/../g) ?? [];
  return byteLengths.includes(bytes.length) ? bytes.join(":") : undefined;
}
