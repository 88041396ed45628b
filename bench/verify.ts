import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { JsonObject } from "#lib/json.ts";
import type { ApiServer } from "./api-server/client.ts";
import { netnsName } from "./calls.ts";
import type { Contender } from "./contenders.ts";
import type { Delegates } from "./delegates.ts";
import { namespace, podName, pods } from "./objects.ts";

/**
 * Checks that a contender does its work before it is measured: that every interface is in the pod's
 * namespace after ADD and in the network-status annotation, and none is after DEL.
 * @throws Error saying what is missing or left
 */
export async function verify(api: ApiServer, contender: Contender, set: Delegates): Promise<void> {
  await api.replace("pods", pods(set, 1));
  await sleep(300);
  const wanted = set.plugins.map((_, nth) => (nth === 0 ? "eth0" : `net${nth}`));
  const { runner } = contender;
  await runner.runOne(contender.job({ command: "ADD", set, sandbox: 0 }));
  expectSame(contender, "interfaces after ADD", { found: await interfaces(), wanted });
  if (!["direct", "floor"].includes(contender.id)) {
    const found = await statusInterfaces(() => api.pod(`${namespace}/${podName(set, 0)}`));
    expectSame(contender, "interfaces in network-status", { found, wanted });
  }
  await runner.runOne(contender.job({ command: "DEL", set, sandbox: 0 }));
  expectSame(contender, "interfaces after DEL", { found: await interfaces(), wanted: [] });
}

async function interfaces(): Promise<string[]> {
  const { stdout } = await execa("ip", ["-j", "-n", netnsName(0), "link"]);
  const links = JSON.parse(stdout) as { ifname: string }[];
  return links.map((link) => link.ifname).filter((name) => name !== "lo");
}

/** Waits two seconds at most: Plexus publishes the status when the call is answered. */
async function statusInterfaces(getPod: () => Promise<JsonObject | null>): Promise<string[]> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const metadata = (await getPod())?.metadata as { annotations: Record<string, string> };
    const status = JSON.parse(metadata.annotations["k8s.v1.cni.cncf.io/network-status"] ?? "[]");
    if (status.length > 0)
      return (status as { interface: string }[]).map((entry) => entry.interface);
    await sleep(100);
  }
  return [];
}

function expectSame(
  { name }: Contender,
  what: string,
  { found, wanted }: { found: readonly string[]; wanted: readonly string[] },
): void {
  if (found.toSorted().join() === wanted.toSorted().join()) return;
  throw new Error(`${name}: ${what} are ${found.join(", ")}, not ${wanted.join(", ")}`);
}
