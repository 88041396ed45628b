import { integer, message, part, parts, text } from "#grpc/testing/message-types.ts";

const metadata = message({
  name: text(1),
  uid: text(2),
  namespace: text(3),
  attempt: integer(4),
});

/** The method of a container runtime, for a scripted server. */
export const listPodSandbox = {
  path: "/runtime.v1.RuntimeService/ListPodSandbox",
  request: message({}),
  response: message({
    items: parts(1, message({ id: text(1), metadata: part(2, metadata), state: integer(3) })),
  }),
};
