import { readdir, readFile, realpath, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import { waitUntil } from "../support/wait.ts";

/** A virtual function of the guest's card, with a network interface that is in the guest's own namespace. */
export interface VirtualFunction {
  /** What device plugins give it for an ID. */
  readonly pciAddress: string;
  readonly ifName: string;
}

const card = "/sys/bus/pci/devices/0000:01:00.0";

/** Makes virtual functions and waits until each has its interface. */
export async function makeVirtualFunctions(count: number): Promise<void> {
  // The guest has no udev, which would load them.
  await execa("modprobe", ["-a", "igb", "igbvf"]);
  const uplink = await waitUntil("the card has its interface", () => interfaceOf(card));
  await execa("ip", ["link", "set", uplink, "up"]);
  await writeFile(join(card, "sriov_numvfs"), `${count}`);
  const areReady = async (): Promise<boolean> => (await virtualFunctions()).length === count;
  await waitUntil("the virtual functions have their interfaces", areReady);
}

/** The virtual functions that are on the machine, not in pods, by their number. */
export async function virtualFunctions(): Promise<VirtualFunction[]> {
  const links = (await readdir(card)).filter((name) => name.startsWith("virtfn")).toSorted();
  const found: VirtualFunction[] = [];
  for (const link of links) {
    const path = await realpath(join(card, link));
    const ifName = await interfaceOf(path);
    if (ifName !== undefined) found.push({ pciAddress: basename(path), ifName });
  }
  return found;
}

/** The hardware address of an interface of the machine. */
export async function addressOf({ ifName }: VirtualFunction): Promise<string> {
  return (await readFile(`/sys/class/net/${ifName}/address`, "utf8")).trim();
}

async function interfaceOf(device: string): Promise<string | undefined> {
  return (await readdir(join(device, "net")).catch(() => []))[0];
}
