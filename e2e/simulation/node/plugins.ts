import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { currentVersion, supportedVersions } from "#cni/versions.ts";
import { world } from "../world/world.ts";
import { forbiddenPlugin } from "./networks.ts";
import { type Plugin, type PluginWork, readPluginCall } from "./plugin/call.ts";
import { hostLocal, hostRoute, mesh, portmap, sbr, tuning } from "./plugin/chained-plugins.ts";
import { collectAddresses } from "./plugin/host-local.ts";
import { bridge, hostDevice, macvlan, ptp, sriov, vlan } from "./plugin/interface-plugins.ts";

const plugins: Readonly<Record<string, Plugin>> = {
  ptp,
  bridge,
  macvlan,
  "host-device": hostDevice,
  sriov,
  "istio-cni": mesh,
  "linkerd-cni": mesh,
  "host-local": hostLocal,
  portmap,
  "host-route": hostRoute,
  tuning,
  sbr,
  vlan,
  // It is installed, and no definition may name it.
  [forbiddenPlugin]: bridge,
};

const pluginTypes: ReadonlySet<string> = new Set(Object.keys(plugins));
/** The plugins of service meshes. */
export const meshTypes: readonly string[] = ["istio-cni", "linkerd-cni"];

/** Whether the node has a plugin. The agents of service meshes install theirs. */
export function hasPlugin(type: string): boolean {
  const { disk, missingPlugins } = world();
  if (meshTypes.includes(type)) return disk.exists(`/opt/cni/bin/${type}`);
  return pluginTypes.has(type) && !missingPlugins.has(type);
}

/** Begins a call of a plugin that the node has. @param opened whose namespace it has opened */
export function* workOf(delegate: DelegateCall, opened: string | undefined): PluginWork {
  const call = { ...readPluginCall(delegate), opened };
  const plugin = plugins[call.type];
  if (plugin === undefined) throw new Error(`there is no plugin ${call.type}`);
  switch (call.command) {
    case "ADD":
      return yield* plugin.add(call);
    case "DEL":
      return yield* plugin.del(call);
    case "CHECK":
      plugin.check(call);
      return undefined;
    case "GC":
      if (call.conf.ipam !== undefined) collectAddresses(call);
      return undefined;
    case "STATUS":
      return undefined;
    case "VERSION":
      return { cniVersion: currentVersion, supportedVersions: [...supportedVersions] };
    default:
      throw new CniError("InvalidEnvironmentVariables", `unknown CNI_COMMAND: ${call.command}`);
  }
}
