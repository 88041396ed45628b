import { spawnSync } from "node:child_process";
import { openSync, read, writeSync } from "node:fs";
import { promisify } from "node:util";
import { type FuseRequest, formatReply, parseRequest, requestSize } from "./fuse.ts";
import { handlersOf } from "./handlers.ts";
import { RecordedDisk, Refused } from "./recorded-disk.ts";

/**
 * A file system in memory that records every operation of every process, mounted by FUSE at the directory of the
 * first argument. An fsync takes as many milliseconds as the second argument says, as on a slow disk: everything
 * that does not wait for the fsync happens before it ends.
 */
const [, , mountPoint = "", syncMs = "0"] = process.argv;
const disk = new RecordedDisk(Number(syncMs));
const handlers = handlersOf(disk);
const unanswered: readonly unknown[] = ["forget", "batchForget", "interrupt"];

async function answer(fd: number, request: FuseRequest): Promise<void> {
  if (unanswered.includes(request.opcode)) return;
  let error = 0;
  let body: Buffer = Buffer.alloc(0);
  try {
    const handler = request.opcode && handlers[request.opcode];
    if (handler === undefined) throw new Refused("ENOSYS");
    body = await handler(request.nodeid, request.body);
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    error = problem.errno;
  }
  try {
    writeSync(fd, formatReply(request.unique, error, body));
  } catch (problem) {
    // The caller has ended, or the file system is unmounted.
    if (!["ENOENT", "ENODEV"].includes((problem as NodeJS.ErrnoException).code ?? ""))
      throw problem;
  }
}

async function serve(fd: number): Promise<void> {
  const next = promisify(read);
  for (;;) {
    const buffer = Buffer.alloc(requestSize);
    const { bytesRead } = await next(fd, buffer, 0, buffer.length, null).catch(unmounted);
    void answer(fd, parseRequest(buffer.subarray(0, bytesRead)));
  }
}

function unmounted(error: NodeJS.ErrnoException): never {
  if (error.code === "ENODEV") process.exit(0);
  throw error;
}

/** What the parent asks for: to note a mark, or all operations so far. */
export type ServerOrder = { readonly mark: string } | "operations";

process.on("message", (order: ServerOrder) => {
  if (order === "operations") process.send?.(disk.operations);
  else {
    disk.record({ kind: "mark", text: order.mark });
    process.send?.(disk.operations.length);
  }
});
process.on("disconnect", () => process.exit(0));

const fuse = openSync("/dev/fuse", "r+");
const options = "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other";
const args = ["-i", "-t", "fuse", "-o", options, "recorder", mountPoint];
const mounted = spawnSync("mount", args, { stdio: ["ignore", "inherit", "inherit", fuse] });
if (mounted.status !== 0) process.exit(1);
process.send?.("mounted");
await serve(fuse);
