/** All of a stream; undefined if it has more than `maxBytes`. @throws Error if the connection breaks */
export async function readBody(
  stream: AsyncIterable<Buffer>,
  maxBytes: number,
): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size <= maxBytes) chunks.push(chunk);
  }
  return size > maxBytes ? undefined : Buffer.concat(chunks).toString();
}
