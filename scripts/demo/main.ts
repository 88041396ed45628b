import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { plexusdFlags, startPlexusd } from "../../e2e/support/plexusd.ts";
import { type PodInterface, podInterfaces } from "./interfaces.ts";
import { compareStock, takeStock } from "./leftovers.ts";
import { picture, type SharedNetwork } from "./picture.ts";
import { endLine, heading, print, timed } from "./print.ts";
import { callPlexus, type DemoPod, printCall } from "./runtime.ts";
import { addNamespace, makeWorkplace, setUpDemoNode, type Workplace } from "./workplace.ts";

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
  print(`CNI plugins of ${at.plugins}; everything else in ${at.dir} and in separate namespaces`);
  await timed("the node's own links: uplink0, br-storage", setUpDemoNode);
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
  const networks = await pingBothWays(at);
  heading("DEL: the runtime takes the pods down");
  for (const pod of [web, db]) await callPlexus(at, "DEL", pod);
  heading("What is left");
  compareStock(before, during, await takeStock(at));
  await daemon.stop();
  heading("The two pods as they were, from ip address, network-status and ping");
  print(...picture([web.name, db.name], networks));
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
}

/** Pings each pod from the other over each shared network. */
async function pingBothWays(at: Workplace): Promise<SharedNetwork[]> {
  heading("ping, between web and db over each network");
  const [links, statuses] = [await podInterfaces(web.name), status(at, web)];
  const theirLinks = await podInterfaces(db.name);
  const shared: SharedNetwork[] = [];
  for (const theirs of status(at, db)) {
    const ours = statuses.find(({ name }) => name === theirs.name);
    if (ours === undefined) continue;
    shared.push({
      network: theirs.name,
      ends: [interfaceOf(links, ours), interfaceOf(theirLinks, theirs)],
      pings: [await ping([web, ours], theirs), await ping([db, theirs], ours)],
    });
  }
  return shared;
}

/** @throws Error when the status differs from the kernel */
function interfaceOf(
  links: readonly PodInterface[],
  { interface: name }: StatusEntry,
): PodInterface {
  const found = links.find(({ ifName }) => ifName === name);
  if (found === undefined) throw new Error(`there is no interface ${name}, which the status has`);
  return found;
}

function status(at: Workplace, { name }: DemoPod): StatusEntry[] {
  return JSON.parse(
    readFileSync(join(at.manifests, ".status/demo", `${name}.json`), "utf8"),
  ) as StatusEntry[];
}

/** Pings the other pod over a shared network, and returns the round-trip time. */
async function ping(
  [{ name }, from]: readonly [DemoPod, StatusEntry],
  { name: network, ips: [address = ""] }: StatusEntry,
): Promise<string> {
  const flags = ["-n", "-c", "1", "-w", "20", "-I", from.interface, address];
  const execute = async (): Promise<string> => {
    const command = ["netns", "exec", name, "ping", ...flags];
    const { exitCode, stdout } = await execa("ip", command, { reject: false });
    const trip = / time=([\d.]+ ms)/.exec(stdout)?.[1];
    if (exitCode === 0 && trip !== undefined) return trip;
    throw new Error(`no answer from ${address} over ${from.interface}: ${stdout}`);
  };
  return timed(
    `${from.interface.padEnd(5)} ${name.padEnd(4)} > ${address.padEnd(15)} ${network}`,
    execute,
  );
}

/** This is the first process of its namespaces, so everything ends with it. */
for (const [signal, status] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const) {
  process.on(signal, () => process.exit(status));
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    endLine();
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`demo: ${message.replaceAll(/\s*\n\s*/g, " ")}\n`);
    process.exit(1);
  },
);
