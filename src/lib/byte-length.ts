const encoder = new TextEncoder();

/**
 * The length of a text in UTF-8, also in browsers, where @plexus/npwg runs. It copies the text: what
 * runs in Node only uses Buffer.byteLength().
 */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}
