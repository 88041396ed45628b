import fc from "fast-check";
import { integer, message as messageType, part, parts, text, texts } from "#grpc/message.ts";
import { MessageError } from "#grpc/wire.ts";
import { must, refusing, type Target } from "../target.ts";

const item = messageType({ name: text(1), count: integer(2), tags: texts(3) });
const type = messageType({
  title: text(1),
  count: integer(2),
  item: part(3, item),
  items: parts(4, item),
});

const name = fc.string({ maxLength: 20 });
const items = fc.record({ name, count: fc.nat(), tags: fc.array(name, { maxLength: 3 }) });
const values = fc.record({
  title: name,
  count: fc.nat(),
  item: fc.option(items, { nil: undefined }),
  items: fc.array(items, { maxLength: 4 }),
});

/** What a server that speaks gRPC answers: protocol buffers. Bytes are texts here, as in `frame`. */
export const message: Target = {
  maxLength: 20_000,
  inputs: values.map((value) => Buffer.from(type.encode(value)).toString("latin1")),
  tokens: ["\x0a", "\x22\0", "\x22\x02\x0a\0", "\xff", "\x80", "\0", "\x7f", "\x2a\x04\x0a\x01a"],
  read(input) {
    const decode = (bytes: Uint8Array) =>
      refusing(
        () => type.decode(bytes),
        (error) => error instanceof MessageError,
      );
    const read = decode(Buffer.from(input, "latin1"));
    if (read === undefined) return;
    const again = type.encode(read);
    const same = Buffer.from(again).equals(Buffer.from(type.encode(type.decode(again))));
    must(same, "a message that is not the same when it is written and read again");
  },
};
