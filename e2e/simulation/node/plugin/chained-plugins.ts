import { world } from "../../world/world.ts";
import { madeBy, type Plugin, type PluginCall, pluginError } from "./call.ts";
import { checkAddresses, releaseAddresses } from "./host-local.ts";
import { checkLink, requireNamespace } from "./pod-link.ts";

/** A plugin that follows another one, whose result it passes on. */
function chained(work: {
  readonly add: (call: PluginCall) => void;
  readonly del: (call: PluginCall) => void;
  readonly check: (call: PluginCall) => void;
}): Plugin {
  return {
    check: work.check,
    *add(call) {
      const { prevResult } = call.conf;
      if (prevResult === undefined) throw pluginError("must be called as chained plugin");
      work.add(call);
      yield;
      return prevResult;
    },
    // biome-ignore lint/correctness/useYield: it has one step.
    *del(call) {
      work.del(call);
      return undefined;
    },
  };
}

/** Makes something outside of the pod's namespace, if the call `asks` for it. */
function outside(asks: (call: PluginCall) => boolean): Plugin {
  return chained({
    add(call) {
      if (!asks(call)) return;
      world().kernel.addHostState(madeBy(call, "host state"));
      world().note(() => `  + host state of ${call.type}`);
    },
    del(call) {
      if (!asks(call)) return;
      const isRemoved = world().kernel.removeHostState(madeBy(call, "host state"));
      if (isRemoved) world().note(() => `  - host state of ${call.type}`);
    },
    check(call) {
      if (asks(call) && !world().kernel.hasHostState(madeBy(call, "host state")))
        throw pluginError(`the host state of ${call.type} is missing`);
    },
  });
}

function asksForPorts({ conf }: PluginCall): boolean {
  return (conf.runtimeConfig?.portMappings ?? []).length > 0;
}

const nothing = (): void => undefined;
/** As `sbr`: its DEL enters the namespace too, and fails without it. */
export const sbr = chained({ add: requireNamespace, del: requireNamespace, check: nothing });

export const tuning = chained({ add: requireNamespace, del: nothing, check: checkLink });

export const portmap = outside(asksForPorts);

/** Stands for plugins that always leave something outside of the namespace. */
export const hostRoute = outside(() => true);

/** Of a service mesh: it changes the pod's namespace, and nothing outside. */
export const mesh = chained({
  add: ({ containerId }) => noteMesh(containerId, "Plexus"),
  del: nothing,
  check: nothing,
});

/** Notes what has run the plugin of a service mesh for a container. */
export function noteMesh(containerId: string, by: "Plexus" | "runtime"): void {
  const { meshAdds } = world();
  meshAdds.set(containerId, [...(meshAdds.get(containerId) ?? []), by]);
}

/** Only Plexus calls it directly, to release what host-device leaves. */
export const hostLocal = chained({ add: nothing, del: releaseAddresses, check: checkAddresses });
