import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { differences } from "../../support/host-state.ts";
import { readHostState } from "./host-state.ts";
import { preparePlace } from "./place.ts";

/** One thing that could be left on a node: how it gets there, and how it goes. */
interface Leftover {
  readonly name: string;
  readonly make: string;
  readonly undo: string;
}

const leftovers: readonly Leftover[] = [
  {
    name: "IPv6 address",
    make: "ip address add fd00:9::1/128 dev up0",
    undo: "ip address del fd00:9::1/128 dev up0",
  },
  {
    name: "IPv6 route",
    make: "ip route add fd00:9::/64 dev up0",
    undo: "ip route del fd00:9::/64 dev up0",
  },
  {
    name: "IPv6 address in a pod",
    make: "ip netns add left && ip -n left link set lo up && ip -n left address add fd00:9::2/128 dev lo",
    undo: "ip netns del left",
  },
  {
    name: "process",
    make: "sleep 1000 >/dev/null 2>&1 & echo $! >/run/netns-left.pid; mv /run/netns-left.pid /run/chaos/etc/pid",
    undo: "kill $(cat /run/chaos/etc/pid)",
  },
  {
    name: "lock",
    make: "flock -x /run/chaos/disk/state/lock sleep 1000 >/dev/null 2>&1 & echo $! >/run/chaos/etc/pid; sleep 0.2",
    undo: "pkill -P $(cat /run/chaos/etc/pid); true",
  },
];

const files: readonly (readonly [string, string])[] = [
  ["record", "/run/chaos/disk/state/c@eth0.record"],
  ["lock file", "/run/chaos/disk/state/c.lock"],
  ["lease", "/var/lib/cni/networks/default/10.71.0.2"],
  ["temporary file", "/run/chaos/tmp/x"],
];

/** Prints, for each kind of leftover, the lines with which the comparison shows it, and those after it is gone. */
async function main(): Promise<void> {
  const place = await preparePlace(process.argv[2] ?? "");
  mkdirSync(place.stateDir);
  mkdirSync("/var/lib/cni/networks/default", { recursive: true });
  const shell = async (command: string): Promise<unknown> => await execa("sh", ["-c", command]);
  await shell(`touch ${join(place.stateDir, "lock")}`);
  const clean = await readHostState(place, []);
  const seen: Record<string, { left: string[]; afterwards: string[] }> = {};
  const note = async (name: string, undo: () => unknown): Promise<void> => {
    const left = differences(clean, await readHostState(place, []));
    await undo();
    await sleep(50);
    seen[name] = { left, afterwards: differences(clean, await readHostState(place, [])) };
  };
  for (const { name, make, undo } of leftovers) {
    await shell(make);
    await note(name, () => shell(undo));
  }
  for (const [name, path] of files) {
    writeFileSync(path, "x");
    await note(name, () => rmSync(path));
  }
  console.log(JSON.stringify(seen));
}

await main();
process.exit(0);
