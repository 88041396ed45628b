import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { JsonObject } from "#lib/json.ts";
import type { ApiServer } from "./api-server/client.ts";
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
  await call(contender, { command: "ADD", set });
  expectSame(contender, "interfaces after ADD", { found: await interfaces(), wanted });
  if (contender.id !== "direct") {
    const pod = await api.pod(`${namespace}/${podName(set, 0)}`);
    const found = statusInterfaces(pod ?? {});
    expectSame(contender, "interfaces in network-status", { found, wanted });
  }
  await call(contender, { command: "DEL", set });
  expectSame(contender, "interfaces after DEL", { found: await interfaces(), wanted: [] });
}

async function call(
  contender: Contender,
  { command, set }: { command: "ADD" | "DEL"; set: Delegates },
): Promise<void> {
  const [outcome] = await contender.runner.run([contender.job({ command, set, sandbox: 0 })]);
  if (outcome?.error !== undefined) throw new Error(outcome.error);
}

async function interfaces(): Promise<string[]> {
  const { stdout } = await execa("ip", ["-j", "-n", "bench-0", "link"]);
  const links = JSON.parse(stdout) as { ifname: string }[];
  return links.map((link) => link.ifname).filter((name) => name !== "lo");
}

function statusInterfaces(pod: JsonObject): string[] {
  const { annotations } = pod.metadata as { annotations: Record<string, string> };
  const status = JSON.parse(annotations["k8s.v1.cni.cncf.io/network-status"] ?? "[]");
  return (status as { interface: string }[]).map((entry) => entry.interface);
}

function expectSame(
  { name }: Contender,
  what: string,
  { found, wanted }: { found: readonly string[]; wanted: readonly string[] },
): void {
  if (found.toSorted().join() === wanted.toSorted().join()) return;
  throw new Error(`${name}: ${what} are ${found.join(", ")}, not ${wanted.join(", ")}`);
}
