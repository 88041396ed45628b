import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { compareHostStates, readHostState } from "./host-state.ts";
import { preparePlace } from "./place.ts";

/** One thing that could be left on a node: how it gets there, and how it goes. */
interface Leftover {
  readonly name: string;
  readonly make: string;
  readonly undo: string;
}

const leftovers: readonly Leftover[] = [
  { name: "link", make: "ip link add left0 type bridge", undo: "ip link del left0" },
  {
    name: "namespace",
    make: "ip netns add left && ip -n left link add x0 type bridge",
    undo: "ip netns del left",
  },
  { name: "route", make: "ip route add 10.9.0.0/16 dev lo", undo: "ip route del 10.9.0.0/16" },
  {
    name: "nftables rule",
    make: "nft add table ip left && nft add chain ip left c",
    undo: "nft delete table ip left",
  },
  {
    name: "iptables rule",
    make: "iptables -A FORWARD -s 10.9.9.9 -j ACCEPT",
    undo: "iptables -D FORWARD -s 10.9.9.9 -j ACCEPT",
  },
  {
    name: "queue",
    make: "tc qdisc add dev up0 root tbf rate 1mbit burst 10k latency 10ms",
    undo: "tc qdisc del dev up0 root",
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
  await shell(
    "iptables -A FORWARD -s 10.9.9.8 -j ACCEPT; iptables -D FORWARD -s 10.9.9.8 -j ACCEPT",
  );
  await shell(`touch ${join(place.stateDir, "lock")}`);
  const clean = await readHostState(place, []);
  const seen: Record<string, { left: string[]; afterwards: string[] }> = {};
  const note = async (name: string, undo: () => unknown): Promise<void> => {
    const left = compareHostStates(clean, await readHostState(place, []));
    await undo();
    await sleep(50);
    seen[name] = { left, afterwards: compareHostStates(clean, await readHostState(place, [])) };
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
