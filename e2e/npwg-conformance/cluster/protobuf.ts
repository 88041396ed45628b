import type { JsonObject } from "../json.ts";

/*
 * client-go sends built-in objects as protobuf: "k8s\0", then the message runtime.Unknown, whose field 2
 * is the object. Field 1 of each object is its ObjectMeta.
 */

/** Field numbers of ObjectMeta. */
const metaFields = { name: 1, namespace: 3, uid: 5, annotations: 12 };

export function isProtobuf(body: Buffer): boolean {
  return body.subarray(0, 4).toString("latin1") === "k8s\0";
}

/** The metadata of an object that is encoded as protobuf: names, UID and annotations. */
export function decodeMetadata(body: Buffer): JsonObject {
  const [object] = fieldsOf(body.subarray(4), 2);
  const [meta = Buffer.alloc(0)] = object === undefined ? [] : fieldsOf(object, 1);
  const text = (number: number): string | undefined => fieldsOf(meta, number)[0]?.toString();
  const annotations = fieldsOf(meta, metaFields.annotations).map((entry) => {
    const [key, value] = [1, 2].map((number) => fieldsOf(entry, number)[0]?.toString() ?? "");
    return [key, value];
  });
  return {
    metadata: {
      name: text(metaFields.name),
      namespace: text(metaFields.namespace),
      uid: text(metaFields.uid),
      annotations: Object.fromEntries(annotations),
    },
  };
}

/** The values of a message's fields with this number that have a length. */
function fieldsOf(message: Buffer, wanted: number): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  while (at < message.length) {
    const tag = varint(message, at);
    const [number, wireType] = [Math.floor(tag.value / 8), tag.value % 8];
    if (wireType !== 2) {
      at = wireType === 0 ? varint(message, tag.end).end : tag.end + (wireType === 1 ? 8 : 4);
      continue;
    }
    const { value: length, end } = varint(message, tag.end);
    if (number === wanted) found.push(message.subarray(end, end + length));
    at = end + length;
  }
  return found;
}

/** Seven bits in each byte, the lowest first. */
function varint(bytes: Buffer, from: number): { value: number; end: number } {
  let value = 0;
  for (let at = from, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] ?? 0;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return { value, end: at + 1 };
  }
}
