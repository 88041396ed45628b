import { openSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { type Frame, FrameReader } from "#protocol/frame.ts";
import { decodeExecResult, decodeRequest, encodeDone, encodeExec } from "#protocol/messages.ts";
import { type Call, cniVariables, namespaces } from "../calls.ts";
import { sets } from "../cases.ts";
import { cniVersion, singleConf } from "../delegates.ts";
import { Duties, type DutyPlace } from "./duties.ts";

/**
 * An engine that decides nothing: for each call of the benchmark it has the orders ready, one EXEC for each plugin and
 * a DONE, and sends the next one when it is answered. What it takes is the floor for every engine with this shim. With a
 * directory for records and a kubeconfig it also does the duties that no engine can leave out.
 */
const [socket = "", plugins = "", contender = "", records, kubeconfig] = process.argv.slice(2);
const place: DutyPlace | undefined =
  records === undefined || kubeconfig === undefined
    ? undefined
    : await openDutyPlace(records, kubeconfig);
const orders = new Map<string, Buffer[]>();
for (const set of sets) {
  for (let sandbox = 0; sandbox < 3 * namespaces; sandbox++) {
    for (const command of ["ADD", "DEL"] as const) prepare({ command, set, sandbox });
  }
}
rmSync(socket, { force: true });
createServer(serve).listen({ path: socket, backlog: 511 }, () => process.stdout.write("serves\n"));

/** The plugin has exited with status 0: the first two fields of an EXEC_RESULT. */
const exited = Buffer.from("\0\0\0\x06exited\0\0\0\0\x010\0", "latin1");
const failed = encodeDone({ exitCode: 1, stdout: "a plugin failed", stderr: "" });

function prepare(call: Call): void {
  const execs = call.set.plugins.map(({ type }, nth) =>
    encodeExec({
      group: nth,
      type,
      searchPath: [plugins],
      timeoutMs: 60_000,
      stdin: JSON.stringify(singleConf(call.set, nth)),
      env: cniVariables(contender, call, { plugins, nth }),
    }),
  );
  const stdout = call.command === "ADD" ? JSON.stringify({ cniVersion, interfaces: [] }) : "";
  const inOrder = call.command === "ADD" ? execs : execs.toReversed();
  const { CNI_COMMAND, CNI_CONTAINERID } = cniVariables(contender, call, { plugins });
  const done = encodeDone({ exitCode: 0, stdout, stderr: "" });
  orders.set(`${CNI_COMMAND} ${CNI_CONTAINERID}`, [...inOrder, done]);
}

function serve(shim: Socket): void {
  const duties = place && new Duties(place);
  let pending: Buffer = Buffer.alloc(0);
  let rest: Buffer[] | undefined;
  shim.on("error", () => shim.destroy());
  shim.on("data", (chunk) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    if (pending.length < 4 || pending.length < 4 + pending.readUInt32BE(0)) return;
    const frame = pending;
    pending = Buffer.alloc(0);
    if (rest !== undefined && !frame.includes(exited)) shim.write(failed);
    const isFirst = rest === undefined;
    rest ??= ordersFor(frame).slice();
    const order = rest.shift();
    if (order === undefined) return;
    if (duties === undefined) shim.write(order);
    else void sendAfter(duties, frame, { isFirst, rest, send: () => shim.write(order) });
  });
}

/** Sends an order when the duties before it are done, and does those after the answer. */
async function sendAfter(
  duties: Duties,
  received: Buffer,
  { isFirst, rest, send }: { isFirst: boolean; rest: readonly Buffer[]; send: () => void },
): Promise<void> {
  const [frame] = new FrameReader().push(received) as [Frame];
  if (isFirst) duties.begin(decodeRequest(frame), rest);
  else duties.keep(decodeExecResult(frame).stdout);
  if (rest.length === 0) await duties.finish();
  send();
  if (rest.length > 0) return;
  await duties.publish();
  await duties.emit();
}

async function openDutyPlace(dir: string, kubeconfig: string): Promise<DutyPlace> {
  const client = new ApiClient(await kubeconfigCredentials(kubeconfig));
  return { dir, dirFd: openSync(dir, "r"), client };
}

function ordersFor(request: Buffer): Buffer[] {
  const [command, id] = ["CNI_COMMAND=", "CNI_CONTAINERID="].map((name) => {
    const start = request.indexOf(name) + name.length;
    return request.toString("latin1", start, request.indexOf(0, start));
  });
  return orders.get(`${command} ${id}`) ?? [failed];
}
