const key = "k8s.v1.cni.cncf.io/network-status";

/**
 * The network-status annotation in the body of a write: client-go sends built-in types as protobuf,
 * where a map's entry is the key (field 1) followed by the value (field 2).
 */
export function statusAnnotation(body: Buffer): string | undefined {
  if (body.subarray(0, 3).toString() !== "k8s") return fromJson(body);
  const at = body.indexOf(key);
  const tag = at + key.length;
  if (at < 0 || body[tag] !== 0x12) return undefined;
  const { value, end } = varint(body, tag + 1);
  return body.subarray(end, end + value).toString();
}

function fromJson(body: Buffer): string | undefined {
  const { metadata } = JSON.parse(body.toString()) as {
    metadata?: { annotations?: Record<string, unknown> };
  };
  const value = metadata?.annotations?.[key];
  return typeof value === "string" ? value : undefined;
}

/** Protobuf's variable-length number: seven bits a byte, the lowest first. */
function varint(bytes: Buffer, from: number): { value: number; end: number } {
  let value = 0;
  for (let at = from, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] ?? 0;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return { value, end: at + 1 };
  }
}
