import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { plexusdFlags, startPlexusd } from "../../e2e/support/plexusd.ts";
import { compareStock, takeStock } from "./leftovers.ts";
import { heading, print, timed } from "./print.ts";
import { callPlexus, type DemoPod, printCall } from "./runtime.ts";
import { addNamespace, DemoError, makeWorkplace, setUpNode, type Workplace } from "./workplace.ts";

/** One attachment in the status that Plexus publishes. */
interface StatusEntry {
  readonly name: string;
  readonly interface: string;
  readonly ips: readonly string[];
}

const web: DemoPod = { name: "web", uid: "6f1d3c1e-0000-4000-8000-000000000001" };
const db: DemoPod = { name: "db", uid: "6f1d3c1e-0000-4000-8000-000000000002" };

async function main(): Promise<void> {
  const at = makeWorkplace();
  heading("Plexus: two pods, three networks each");
  print(`CNI plugins of ${at.plugins}; everything else in ${at.dir} and in namespaces of its own`);
  await timed("the node's own links: uplink0, br-storage", setUpNode);
  await timed("network namespaces of the pods web and db", async () => {
    for (const { name } of [web, db]) await addNamespace(name);
  });
  heading("plexusd, on the manifests of examples/manifests");
  print(`plexusd ${plexusdFlags(at).join(" ").replaceAll(" --", " \\\n        --")}`);
  const daemon = await timed("it serves", () => startPlexusd(at));
  const before = await takeStock(at);
  await attach(at);
  const during = await takeStock(at);
  await show(at);
  heading("DEL: the runtime takes the pods down");
  for (const pod of [web, db]) await callPlexus(at, "DEL", pod);
  heading("What is left");
  compareStock(before, during, await takeStock(at));
  await daemon.stop();
}

async function attach(at: Workplace): Promise<void> {
  heading("ADD: what the container runtime executes for the pod web");
  printCall(at, "ADD", web);
  for (const pod of [web, db]) await callPlexus(at, "ADD", pod);
}

async function show(at: Workplace): Promise<void> {
  heading("ip address, in the pod web");
  print((await execa("ip", ["-n", "web", "-brief", "address"])).stdout);
  print((await execa("ip", ["-n", "web", "route"])).stdout);
  heading("k8s.v1.cni.cncf.io/network-status of the pod web");
  print(JSON.stringify(status(at, web), null, 2));
  heading("ping, from web to db over each network");
  for (const { name, interface: ifName, ips } of status(at, db)) {
    const [address = ""] = ips;
    await timed(`${ifName.padEnd(5)} ${address.padEnd(15)} ${name}`, () => ping(ifName, address));
  }
}

function status(at: Workplace, { name }: DemoPod): StatusEntry[] {
  return JSON.parse(
    readFileSync(join(at.manifests, ".status/demo", `${name}.json`), "utf8"),
  ) as StatusEntry[];
}

async function ping(ifName: string, address: string): Promise<void> {
  const command = [
    "netns",
    "exec",
    "web",
    "ping",
    "-n",
    "-c",
    "1",
    "-w",
    "20",
    "-I",
    ifName,
    address,
  ];
  const { exitCode, stdout } = await execa("ip", command, { reject: false });
  if (exitCode !== 0) throw new DemoError(`no answer from ${address} over ${ifName}: ${stdout}`);
}

/** Exiting takes everything along: this is the first process of its namespaces. */
for (const [signal, status] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  process.on(signal, () => process.exit(status));
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`demo: ${message.replaceAll(/\s*\n\s*/g, " ")}\n`);
    process.exit(1);
  },
);
