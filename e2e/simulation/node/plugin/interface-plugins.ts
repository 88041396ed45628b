import { world } from "../../world/world.ts";
import { type Plugin, type PluginCall, type PluginWork, pluginError } from "./call.ts";
import { claimDevice, releaseDevice } from "./device-cache.ts";
import {
  type AllocatedAddress,
  allocateAddresses,
  checkAddresses,
  releaseAddresses,
} from "./host-local.ts";
import {
  checkLink,
  configureLink,
  linkResult,
  makeLink,
  removeLink,
  requireNamespace,
} from "./pod-link.ts";

/** Allocates addresses first, and releases them if it fails, as `ptp`. */
function* addAddressFirst(call: PluginCall): PluginWork {
  const addresses = allocateAddresses(call);
  return yield* releasingOnFailure(call, function* (): PluginWork {
    yield;
    configureLink(makeLink(call), call, addresses);
    yield;
    return linkResult(call, addresses, [hostVeth(call)]);
  });
}

/** Makes the link first, as plugins do that work without addresses too. */
function addLinkFirst(options: {
  readonly hostLinks: (call: PluginCall) => readonly string[];
  readonly removesLink: boolean;
}): Plugin["add"] {
  return function* (call): PluginWork {
    const link = makeLink(call, call.conf.runtimeConfig?.mac);
    yield;
    const addresses = allocateIfAsked(call, options.removesLink);
    return yield* releasingOnFailure(call, function* (): PluginWork {
      yield;
      configureLink(link, call, addresses);
      return linkResult(call, addresses, options.hostLinks(call));
    });
  };
}

function allocateIfAsked(call: PluginCall, removesLink: boolean): AllocatedAddress[] {
  if (call.conf.ipam === undefined) return [];
  try {
    return allocateAddresses(call);
  } catch (error) {
    if (removesLink) removeLink(call);
    throw error;
  }
}

function* releasingOnFailure(call: PluginCall, work: () => PluginWork): PluginWork {
  try {
    return yield* work();
  } catch (error) {
    yield;
    if (call.conf.ipam !== undefined) releaseAddresses(call);
    throw error;
  }
}

function* delAddressFirst(call: PluginCall): PluginWork {
  if (call.conf.ipam !== undefined) releaseAddresses(call);
  yield;
  removeLink(call);
  return undefined;
}

function* delLinkFirst(call: PluginCall): PluginWork {
  removeLink(call);
  yield;
  if (call.conf.ipam !== undefined) releaseAddresses(call);
  return undefined;
}

/** As `host-device`: without a namespace it does nothing, and without the link it fails. */
function* delInsisting(call: PluginCall): PluginWork {
  if (call.netns === "") return undefined;
  requireNamespace(call);
  if (call.conf.ipam !== undefined) releaseAddresses(call);
  yield;
  if (!removeLink(call)) throw pluginError(`failed to find "${call.ifName}"`);
  return undefined;
}

function checkInterface(call: PluginCall): void {
  checkLink(call);
  if (call.conf.ipam !== undefined) checkAddresses(call);
}

function hostVeth({ containerId, ifName }: PluginCall): string {
  return `veth-${containerId}-${ifName}`;
}

export const sriov: Plugin = {
  *add(call) {
    claimDevice(call);
    yield;
    return yield* addLinkFirst({ hostLinks: () => [], removesLink: false })(call);
  },
  *del(call) {
    yield* delAddressFirst(call);
    releaseDevice(call);
    return undefined;
  },
  check: checkInterface,
};

/** Stands for a primary CNI, which refuses the configuration of its earlier release. */
function requireRelease({ conf }: PluginCall): void {
  if (world().isPrimaryUpgraded && conf.mtu === undefined)
    throw pluginError("json: cannot unmarshal string into Go struct field NetConf.mtu of type int");
}

export const ptp: Plugin = {
  *add(call) {
    requireRelease(call);
    return yield* addAddressFirst(call);
  },
  *del(call) {
    requireRelease(call);
    return yield* delAddressFirst(call);
  },
  check: checkInterface,
};

export const bridge: Plugin = {
  add: addLinkFirst({ hostLinks: (call) => ["cni0", hostVeth(call)], removesLink: false }),
  del: delLinkFirst,
  check: checkInterface,
};

export const macvlan: Plugin = {
  add: addLinkFirst({ hostLinks: () => [], removesLink: true }),
  del: delAddressFirst,
  check: checkInterface,
};

export const hostDevice: Plugin = {
  add: addLinkFirst({ hostLinks: () => [], removesLink: false }),
  del: delInsisting,
  check: checkInterface,
};

/** Its configuration names a master that the node has not. */
export const vlan: Plugin = {
  // biome-ignore lint/correctness/useYield: it has no second step.
  *add() {
    throw pluginError('failed to lookup master index "eth9": Link not found');
  },
  del: delLinkFirst,
  check: checkLink,
};
