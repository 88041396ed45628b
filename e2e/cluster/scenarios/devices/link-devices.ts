import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { nad } from "../../../support/node/manifests.ts";
import { home } from "../target/objects.ts";
import { plexusctl } from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { eventually, nodeField, ownCluster } from "../target/target.ts";
import type { DevicePlugin } from "./device-plugin.ts";

/**
 * host-device takes PCI addresses for devices, or the name of a link that is in its configuration: this
 * gives it the device for that name. Devices of these tests are links, as virtual functions need hardware.
 */
const plugin = `#!/bin/sh
conf=$(cat)
id=$(printf %s "$conf" | sed -n 's/.*"deviceID":"\\([^"]*\\)".*/\\1/p')
printf %s "$conf" | sed "s/\\"type\\":\\"link-device\\"/\\"type\\":\\"host-device\\",\\"device\\":\\"$id\\"/" |
	exec /opt/cni/bin/host-device
`;

/** The devices, which are links. */
export const links = ["dev-a", "dev-b", "dev-c"];

/** Makes the links on the node, and installs the plugin for networks that are attached by them. */
export async function addLinks(scene: Scene): Promise<void> {
  for (const link of links) {
    const peer = ["type", "veth", "peer", "name", `${link}-p`];
    await scene.target.inNode(["ip", "link", "add", link, ...peer]);
  }
  const path = join(ownCluster(scene).node.cniBinDir, "link-device");
  await writeFile(path, plugin);
  await chmod(path, 0o755);
}

/** Removes the links, which are on the node. */
export async function removeLinks(scene: Scene): Promise<void> {
  for (const link of links) await scene.target.inNode(["ip", "link", "delete", link]);
}

/** A definition whose networks are attached by a link of a resource. */
export function linkNetwork(name: string, resourceName: string, eachDevice = false): object {
  const conf = { cniVersion: "1.0.0", name, plugins: [{ type: "link-device" }] };
  const annotations = {
    "k8s.v1.cni.cncf.io/resourceName": resourceName,
    ...(eachDevice && { "plexus.dev/each-device": "true" }),
  };
  return nad(name, conf, { namespace: home, annotations });
}

/** A driver's ResourceSlice, whose devices are these links of a node. */
export function linkSlice(
  { driver, nodeName, resourceName }: Record<"driver" | "nodeName" | "resourceName", string>,
  names: readonly string[],
): object {
  const devices = names.map((name) => ({
    name,
    attributes: {
      "k8s.cni.cncf.io/deviceID": { string: name },
      "k8s.cni.cncf.io/resourceName": { string: resourceName },
    },
  }));
  const type = { apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice" };
  const pool = { name: nodeName, generation: 1, resourceSliceCount: 1 };
  return { ...type, metadata: { name: driver }, spec: { driver, nodeName, pool, devices } };
}

/** The hardware addresses of those of the links that are on the node. */
export async function addressesOf(scene: Scene): Promise<Record<string, string>> {
  const listed = await scene.target.inNode(["ip", "-oneline", "link"]);
  const found = [...listed.matchAll(/^\d+: ([^@:\s]+)[@:].*link\/ether (\S+)/gm)];
  const all = found.map(([, name = "", address = ""]) => [name, address] as const);
  return Object.fromEntries(all.filter(([name]) => links.includes(name)));
}

/** The record of a pod's attachments. @throws Error when there is none */
export async function recordOf({ target }: Scene, name: string): Promise<AttachmentRecord> {
  const listed = await plexusctl(target, "records", "--output=json");
  const records = JSON.parse(listed) as AttachmentRecord[];
  const found = records.find(({ pod }) => pod?.name === name);
  if (found === undefined) throw new Error(`there is no record of pod ${name}`);
  return found;
}

/** Registers the plugin's devices with the kubelet, and waits until the scheduler sees them. */
export async function offerDevices({ target }: Scene, plugin: DevicePlugin): Promise<void> {
  await plugin.start();
  const { resourceName, ids } = plugin.options;
  const path = `.status.allocatable.${resourceName.replaceAll(".", "\\.")}`;
  await eventually(
    "the node offers the devices",
    async () => (await nodeField(target, path)) === `${ids.length}`,
  );
}
