import type { NetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { DriverError } from "#docker/driver-error.ts";
import { isJsonObject } from "#lib/json.ts";

/**
 * Refuses a network that works only where its plugins ran. In the staged mode an interface leaves the
 * network namespace that it was made in, and takes nothing of that namespace along.
 * @throws DriverError naming what would be lost
 */
export function checkStagedMode(list: NetConfList, display: string): void {
  const lost = list.plugins.flatMap((plugin) => lostInStagedMode(plugin));
  if (lost.length === 0) return;
  throw new DriverError(
    `network ${display}: an interface that is moved into its container keeps none of: ${lost.join(", ")}; ` +
      "use -o plexus.mode=direct (Docker Engine 28 or later)",
  );
}

function lostInStagedMode({ type, raw }: PluginConf): string[] {
  const { ipam, sysctl } = raw;
  const lost: string[] = [];
  if (type === "sbr") lost.push("the policy routes of plugin sbr");
  if (type === "tuning" && isJsonObject(sysctl) && Object.keys(sysctl).length > 0) {
    lost.push("the sysctls of plugin tuning");
  }
  if (isJsonObject(ipam) && ipam.type === "dhcp") lost.push("the renewals of plugin dhcp");
  return lost;
}
