const encoder = new TextEncoder();

/** The length of a text in UTF-8. Not Node's Buffer: @plexus/npwg also runs in browsers. */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}
