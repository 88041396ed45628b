import { readFileSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { FrameReader, FrameType } from "#protocol/frame.ts";
import { decodeExecResult, decodeRequest, encodeDone, encodeExec } from "#protocol/messages.ts";

/**
 * An engine that decides nothing, for a runtime whose sandboxes are not known in advance: it passes a call on to each
 * plugin of one list. It records nothing and asks no API.
 */
const [socket = "", file = "", plugins = ""] = process.argv.slice(2);

interface List {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly { readonly type: string }[];
}

const { cniVersion, name, ...list } = JSON.parse(readFileSync(file, "utf8")) as List;
rmSync(socket, { force: true });
createServer(serve).listen({ path: socket, backlog: 511 }, () => process.stdout.write("serves\n"));

type Orders = Generator<Buffer, Buffer, string>;

function* ordersFor(variables: Readonly<Record<string, string>>): Orders {
  const own = Object.entries(variables).filter(([key]) => key.startsWith("CNI_"));
  const env = Object.fromEntries(own);
  let prevResult: unknown;
  let stdout = "";
  const isAdd = env.CNI_COMMAND === "ADD";
  const inOrder = isAdd ? list.plugins : list.plugins.toReversed();
  for (const [group, plugin] of inOrder.entries()) {
    const stdin = JSON.stringify({ cniVersion, name, ...plugin, prevResult });
    const { type } = plugin;
    stdout = yield encodeExec({
      group,
      type,
      searchPath: [plugins],
      timeoutMs: 60_000,
      stdin,
      env,
    });
    if (isAdd) prevResult = JSON.parse(stdout);
  }
  return encodeDone({ exitCode: 0, stdout, stderr: "" });
}

function serve(shim: Socket): void {
  const reader = new FrameReader();
  let orders: Orders | undefined;
  shim.on("error", () => shim.destroy());
  shim.on("data", (chunk) => {
    for (const frame of reader.push(chunk)) {
      if (frame.type === FrameType.Request) {
        orders = ordersFor(decodeRequest(frame).env);
        shim.write(orders.next("").value);
      } else if (frame.type === FrameType.ExecResult) {
        const { outcome, code, stdout, message } = decodeExecResult(frame);
        const failed = encodeDone({ exitCode: 1, stdout, stderr: message });
        const isDone = outcome === "exited" && code === 0;
        shim.write(isDone && orders !== undefined ? orders.next(stdout).value : failed);
      }
    }
  });
}
