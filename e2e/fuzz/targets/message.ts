import fc from "fast-check";
import { message as messageType, part, parts, text, texts } from "#grpc/message.ts";
import * as protobuf from "#grpc/testing/message-types.ts";
import { MessageError } from "#grpc/wire.ts";
import { must, refusing, type Target } from "../target.ts";

const item = messageType({ name: text(1), tags: texts(3) });
const read = messageType({ title: text(1), item: part(3, item), items: parts(4, item) });

type Item = ReturnType<typeof item> & { readonly count?: number };
const itemOfServer: protobuf.MessageType<Item> = protobuf.message({
  name: protobuf.text(1),
  count: protobuf.integer(2),
  tags: protobuf.texts(3),
});
const type = protobuf.message({
  title: protobuf.text(1),
  count: protobuf.integer(2),
  item: protobuf.part(3, itemOfServer),
  items: protobuf.parts(4, itemOfServer),
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
  inputs: values.map((value) => type.encode(value).toString("latin1")),
  tokens: ["\x0a", "\x22\0", "\x22\x02\x0a\0", "\xff", "\x80", "\0", "\x7f", "\x2a\x04\x0a\x01a"],
  read(input) {
    const decode = (bytes: Uint8Array) =>
      refusing(
        () => read(bytes),
        (error) => error instanceof MessageError,
      );
    const found = decode(Buffer.from(input, "latin1"));
    if (found === undefined) return;
    const again = JSON.stringify(decode(type.encode(found)));
    must(again === JSON.stringify(found), "a message that another implementation writes otherwise");
  },
};
