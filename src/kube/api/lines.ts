/** Longer than any object that an API server stores (1.5 MiB in etcd, JSON-escaped). */
const maxLineBytes = 32 * 1024 * 1024;

/**
 * The lines of a byte stream without their line ends; empty ones are left out, and so is an
 * unterminated last one, which is a cut-off object.
 * @throws Error for a line longer than 32 MiB
 */
export async function* linesOf(
  stream: AsyncIterable<unknown>,
): AsyncGenerator<string, void, undefined> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const piece of stream) {
    let chunk = piece as Buffer;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a)) {
      const line = Buffer.concat([...pending, chunk.subarray(0, end)]).toString("utf8");
      pending = [];
      pendingBytes = 0;
      chunk = chunk.subarray(end + 1);
      if (line.trim() !== "") yield line;
    }
    if (chunk.length > 0) pending.push(chunk);
    pendingBytes += chunk.length;
    if (pendingBytes > maxLineBytes) throw new Error(`a line is longer than ${maxLineBytes} bytes`);
  }
}
