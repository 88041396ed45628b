import { join } from "node:path";
import { Crio } from "../../crio/crio.ts";
import { prepareCrioTools } from "../../crio/tools.ts";
import type { NodeRuntime } from "../machine/runtime-machine.ts";
import { Containerd } from "./containerd.ts";
import { ClusterNode, type NodeOptions } from "./node.ts";
import type { Tools } from "./tools.ts";

/** Writes the files of the first node of a cluster (1), of the second, and so on. */
export type CreateNode = (index: number, options?: NewNode) => Promise<ClusterNode>;

/** What a node has that others of its cluster need not have. */
export type NewNode = Pick<NodeOptions, "taints">;

/** What creates the nodes of one cluster; logs and control groups of a node get its name. */
export function nodeCreator(
  shared: Omit<NodeOptions, "runtime" | "index" | "root" | "taints">,
  directory: string,
): CreateNode {
  return async (index, options) => {
    const name = `node-${index}`;
    return ClusterNode.create({
      ...shared,
      ...options,
      index,
      runtime: await nodeRuntime(shared.tools),
      root: join(directory, name),
      logs: join(shared.logs, name),
      cgroup: `${shared.cgroup}-${name}`,
    });
  };
}

/** The container runtime that PLEXUS_E2E_RUNTIME names, built if it is not in the cache yet. */
export async function nodeRuntime(tools: Tools): Promise<NodeRuntime> {
  const name = process.env.PLEXUS_E2E_RUNTIME || "containerd";
  if (name === "containerd") return new Containerd(tools);
  if (name === "crio") return new Crio(await prepareCrioTools());
  throw new Error(`no such container runtime: ${name}; there are containerd and crio`);
}
