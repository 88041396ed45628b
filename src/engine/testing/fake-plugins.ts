import { parseCniArgs } from "#cni/args.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import type { PluginLookup } from "#engine/ports/host.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FakeKernel } from "./fake-kernel.ts";

/** What a scripted plugin does when it is executed; undefined = what every fake plugin does. */
type PluginScript = (
  call: FakePluginCall,
) => DelegateOutcome | undefined | Promise<DelegateOutcome | undefined>;

/** A call as the plugin sees it. */
interface FakePluginCall extends DelegateCall {
  readonly command: string;
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly conf: JsonObject;
}

/** A plugin that printed `stdout` and exited with `code`. */
export function exited(code: number, stdout: unknown = "", stderr = ""): DelegateOutcome {
  const printed = typeof stdout === "string" ? stdout : JSON.stringify(stdout);
  return { outcome: "exited", code, stdout: printed, stderr, message: "", elapsedUs: 1500 };
}

/** A plugin that failed as the specification wants it. */
export function failed(code: number, msg: string): DelegateOutcome {
  return exited(1, { cniVersion: "1.0.0", code, msg });
}

/** A plugin that makes its interface before it fails. */
export function halfway(
  { kernel }: { readonly kernel: FakeKernel },
  outcome: DelegateOutcome,
): (call: FakePluginCall) => DelegateOutcome {
  return ({ netns, ifName }) => {
    kernel.addLink(netns, ifName);
    return outcome;
  };
}

/** An execution that the plugin did not end by itself. */
export function ended(outcome: DelegateOutcome["outcome"], message = ""): DelegateOutcome {
  return { ...exited(0), outcome, message };
}

/** Where a plugin is, or what a search in these directories finds. */
type Lookup = PluginLookup | ((searchPath: readonly string[]) => PluginLookup);

/**
 * The plugins of a node. Unless scripted, an ADD makes the interface with the addresses that are asked for, else one, and a chained
 * one passes its `prevResult` on; the DEL of the one that made the interface removes it;
 * everything else succeeds.
 */
export class FakePlugins {
  /** Every call, in order. */
  readonly calls: FakePluginCall[] = [];
  readonly #kernel: FakeKernel;
  readonly #journal: string[];
  readonly #lookups = new Map<string, Lookup>();
  readonly #scripts = new Map<string, PluginScript>();
  /** Which plugin made an interface, and so removes it. */
  readonly #madeBy = new Map<string, string>();
  #addressed = 0;

  constructor(kernel: FakeKernel, journal: string[]) {
    this.#kernel = kernel;
    this.#journal = journal;
  }

  /** Scripts one plugin, for one command (`"ptp ADD"`) or all of them (`"ptp"`). */
  script(which: string, script: PluginScript | DelegateOutcome): void {
    this.#scripts.set(which, typeof script === "function" ? script : () => script);
  }

  /** Lets the plugin do again what every fake plugin does. */
  unscript(which: string): void {
    this.#scripts.delete(which);
  }

  /** `type COMMAND ifName` of every call, or of those of one command. */
  log(command?: string): string[] {
    return this.calls
      .filter((call) => command === undefined || call.command === command)
      .map((call) => `${call.type} ${call.command} ${call.ifName}`.trim());
  }

  /** The calls of one plugin and command. */
  of(type: string, command: string): FakePluginCall[] {
    return this.calls.filter((call) => call.type === type && call.command === command);
  }

  /** Makes a plugin's executable unavailable, or available again. */
  setLookup(type: string, lookup: Lookup): void {
    this.#lookups.set(type, lookup);
  }

  /** Whether the plugin is installed: every one is, unless {@link setLookup} says otherwise. */
  find(type: string, searchPath: readonly string[] = []): PluginLookup {
    const lookup = this.#lookups.get(type) ?? { outcome: "found" };
    return typeof lookup === "function" ? lookup(searchPath) : lookup;
  }

  async run(order: DelegateCall): Promise<DelegateOutcome> {
    for (const required of order.requires ?? []) {
      const lookup = this.find(required, order.searchPath);
      if (lookup.outcome !== "found") return ended(lookup.outcome, lookup.message);
    }
    const call = asSeen(order);
    this.calls.push(call);
    this.#journal.push(`${call.type} ${call.command} ${call.ifName}`.trim());
    const { type, command } = call;
    const lookup = this.find(type, order.searchPath);
    if (lookup.outcome !== "found") return ended(lookup.outcome, lookup.message);
    const script = this.#scripts.get(`${type} ${command}`) ?? this.#scripts.get(type);
    return (await script?.(call)) ?? this.work(call);
  }

  /** What every fake plugin does. */
  work(call: FakePluginCall): DelegateOutcome {
    const { command, netns, ifName } = call;
    const link = `${netns} ${ifName}`;
    if (command === "DEL" && this.#madeBy.get(link) === call.type) {
      this.#kernel.removeLink(netns, ifName);
    }
    if (command === "VERSION") {
      return exited(0, { cniVersion: "1.1.0", supportedVersions: ["1.0.0", "1.1.0"] });
    }
    if (command !== "ADD") return exited(0);
    if (isJsonObject(call.conf.prevResult)) return exited(0, call.conf.prevResult);
    const asked = requestsOf(call);
    const addresses = asked.ips ?? [`10.0.0.${++this.#addressed}/24`];
    this.#kernel.addLink(netns, ifName, addresses);
    this.#madeBy.set(link, call.type);
    const mac = asked.mac ?? this.#kernel.link(netns, ifName)?.mac;
    return exited(0, interfaceResult(call, addresses, mac));
  }
}

/** The result of an ADD that made one interface. */
export function interfaceResult(
  call: FakePluginCall,
  addresses: string | readonly string[],
  mac = "02:00:00:00:00:02",
): JsonObject {
  const gateway = "10.0.0.254";
  return {
    cniVersion: call.conf.cniVersion ?? "",
    interfaces: [{ name: call.ifName, mac, sandbox: call.netns }],
    ips: [addresses].flat().map((address) => ({ address, gateway, interface: 0 })),
  };
}

/** What the call asks for, in its runtimeConfig or else in CNI_ARGS. */
function requestsOf({ conf, env }: FakePluginCall): { ips?: string[]; mac?: string } {
  const args = new Map(parseCniArgs(env.CNI_ARGS ?? ""));
  const own = isJsonObject(conf.runtimeConfig) ? conf.runtimeConfig : {};
  const ips = Array.isArray(own.ips) ? own.ips.map(String) : args.get("IP")?.split(",");
  const mac = typeof own.mac === "string" ? own.mac : args.get("MAC");
  return omitUndefined({
    mac,
    ips: ips?.map((ip) => (ip.includes("/") ? ip : `${ip}/24`)),
  });
}

function asSeen(order: DelegateCall): FakePluginCall {
  const conf: unknown = JSON.parse(order.stdin);
  if (!isJsonObject(conf)) throw new Error(`stdin of ${order.type} is no object`);
  return {
    ...order,
    command: order.env.CNI_COMMAND ?? "",
    containerId: order.env.CNI_CONTAINERID ?? "",
    ifName: order.env.CNI_IFNAME ?? "",
    netns: order.env.CNI_NETNS ?? "",
    conf,
  };
}
