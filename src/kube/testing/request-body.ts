const key = "k8s.v1.cni.cncf.io/network-status";

/**
 * The body of a write; undefined when it is empty. client-go sends built-in types as protobuf. Only the network-status
 * annotation is read from it, because Multus writes nothing else.
 */
export function parseBody(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  if (body.subarray(0, 3).toString() !== "k8s") return JSON.parse(body.toString());
  const status = statusAnnotation(body);
  return { metadata: status === undefined ? {} : { annotations: { [key]: status } } };
}

/** The value of a protobuf map's entry is field 2, behind the key, which is field 1. */
function statusAnnotation(body: Buffer): string | undefined {
  const at = body.indexOf(key);
  const tag = at + key.length;
  if (at < 0 || body[tag] !== 0x12) return undefined;
  const { value, end } = varint(body, tag + 1);
  return body.subarray(end, end + value).toString();
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
