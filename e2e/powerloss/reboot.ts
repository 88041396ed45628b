import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { execa } from "execa";
import { parseStateFileName } from "#lib/files/state-files.ts";
import { readHostState } from "../chaos/lab/host-state.ts";
import { type Command, startCall } from "../chaos/lab/runtime-call.ts";
import type { Node } from "../chaos/node.ts";
import { sandboxOf } from "../chaos/run.ts";
import { flavour } from "../support/flavour.ts";
import { differences } from "../support/host-state.ts";
import { leasesName, type Remains } from "./power-loss.ts";

/** What happens on a machine after it has come up again. Without plexusd, what says "plexusd starts" is left out. */
const descriptions = {
  DEL: "plexusd starts, then the runtime deletes the sandbox",
  "DEL before plexusd": "the runtime deletes the sandbox; plexusd starts when that fails",
  GC: "plexusd starts, then the runtime says that no sandbox is there",
} as const;
export type Recovery = keyof typeof descriptions;

/** Those of this run's flavour. */
export const recoveries = (Object.keys(descriptions) as Recovery[]).filter(
  (name) => flavour === "daemon" || name !== "DEL before plexusd",
);

const callLimitMs = 30_000;
const delLimit = 3;
const bootId = "/proc/sys/kernel/random/boot_id";
const otherBoot = "b0070000-0000-4000-8000-000000000000";

/** Gives the node another boot ID, as every boot has. */
export async function changeBootId(node: Node): Promise<void> {
  const file = join(node.place.root, "etc/boot_id");
  writeFileSync(file, `${otherBoot}\n`);
  await execa("mount", ["--bind", file, bootId]);
}

/** The node's own boot ID again. */
export async function restoreBootId(): Promise<void> {
  await execa("umount", [bootId]);
}

/**
 * Puts on the node's disk what a power loss has left, has it recover, and returns what is left after
 * that. There is nothing to be done for the rest of a reboot: the story has left no links, rules or namespaces.
 */
export async function recover(
  node: Node,
  { files }: Remains,
  { recovery, number }: { recovery: Recovery; number: number },
): Promise<string[]> {
  restore(node, files);
  const { daemon } = node.contender;
  if (recovery !== "DEL before plexusd") await daemon?.start();
  const operation = recovery === "GC" ? "GC" : "DEL";
  let said = await call(node, operation, number);
  if (said !== "ok") await daemon?.start();
  for (let n = 1; said !== "ok" && n < delLimit; n++) said = await call(node, operation, number);
  if (operation === "GC" && hasLostContent(said)) said = await call(node, "later retry", number);
  const known = [daemon?.pid ?? 0];
  const state = differences(node.reference, await readHostState(node.place, known));
  await daemon?.kill();
  const left = state.filter((line) => !isSweptOrPutAside(line));
  return said === "ok" ? left : [said, ...left];
}

/** What plexusd sweeps when it is old enough, and damaged files that are kept for people to look at. */
function isSweptOrPutAside(line: string): boolean {
  const file = /^\+ files: (.*)$/.exec(line)?.[1];
  const kind = file === undefined ? undefined : parseStateFileName(basename(file))?.kind;
  return (
    kind !== undefined &&
    ["temporary", "sandbox-lock", "tombstone", "engine-only", "damaged"].includes(kind)
  );
}

/**
 * Whether a GC kept a record whose content was lost: nothing says where its namespace is. plexusd detaches it ten minutes
 * after its start, as a DEL without CNI_ARGS does.
 */
function hasLostContent(said: string): boolean {
  return (
    said.startsWith("code 6: attachment record ") && said.endsWith("it is truncated or altered")
  );
}

function restore({ place }: Node, files: Remains["files"]): void {
  for (const dir of [place.disk, "/var/lib/cni"])
    for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true });
  const leases = `${leasesName}/`;
  for (const { path, mode, content } of files) {
    if (path === leasesName) continue;
    const to = path.startsWith(leases)
      ? join("/var/lib/cni", path.slice(leases.length))
      : join(place.disk, path);
    if (content === undefined) mkdirSync(to);
    else writeFileSync(to, Buffer.from(content, "base64"));
    chmodSync(to, mode);
  }
}

/** The runtime's call after a reboot: the sandbox's network namespace is gone, and it knows. */
function call(node: Node, operation: Call, number: number): Promise<string> {
  const sandbox = { ...sandboxOf(number), netns: "" };
  const options = { cniPath: [node.place.binDir], previousRelease: false, standalone: false };
  const del = node.contender.command("DEL", sandbox, options);
  return startCall(asCall[operation](del), callLimitMs).outcome;
}

const asCall = {
  DEL: (del) => del,
  GC: asGc,
  "later retry": (del) => ({ ...del, env: { ...del.env, CNI_ARGS: "" } }),
} as const satisfies Record<string, (del: Command) => Command>;
type Call = keyof typeof asCall;

function asGc(del: Command): Command {
  const env = Object.entries(del.env).filter(([name]) => !/^CNI_(?!PATH)/.test(name));
  const conf = { ...JSON.parse(del.stdin), cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
  return {
    program: del.program,
    env: { ...Object.fromEntries(env), CNI_COMMAND: "GC" },
    stdin: JSON.stringify(conf),
  };
}
