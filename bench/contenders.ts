import { readFileSync } from "node:fs";
import { join } from "node:path";
import { cniEnvironment } from "../e2e/support/cni-environment.ts";
import { shimEnvironment } from "../e2e/support/plexusd.ts";
import type { Place } from "./place.ts";
import type { Job, Step } from "./runner.ts";

/** Two networks that a pod is attached to. */
export interface Delegates {
  readonly name: string;
  /** The default network's plugin, then the further one's. */
  readonly plugins: readonly [object & { type: string }, object & { type: string }];
  /** Directory of each. */
  readonly dirs: readonly [string, string];
}

/** A way to attach a pod to both networks. */
export interface Contender {
  readonly name: string;
  job(command: "ADD" | "DEL", sandbox: number): Job;
}

const version = "1.0.0";

/** One call: which sandbox of the benchmark, and under which names. */
interface Call {
  readonly command: "ADD" | "DEL";
  readonly sandbox: number;
  readonly containerId: string;
  readonly ifName: string;
}

function environment(
  { cniPath }: Place,
  { command, sandbox, containerId, ifName }: Call,
): Record<string, string> {
  const netns = `/run/netns/bench-${sandbox}`;
  const pod = { namespace: "bench", name: `pod-${sandbox}` };
  const variables = { command, cniPath, sandbox: { containerId, netns, ifName, pod } };
  return { PATH: process.env.PATH ?? "", ...cniEnvironment(variables) };
}

/** The delegates alone, started as the runtime would start a plugin: the least that there can be. */
export function bareDelegates(place: Place, delegates: Delegates): Contender {
  return {
    name: "delegates alone",
    job(command, sandbox) {
      const containerId = `bare-${delegates.name}-${sandbox}`;
      const call = { command, sandbox, containerId };
      const steps = delegates.plugins.map(
        (plugin, nth): Step => ({
          program: join(delegates.dirs[nth] ?? "", plugin.type),
          env: environment(place, { ...call, ifName: nth === 0 ? "eth0" : "net1" }),
          stdin: JSON.stringify({
            cniVersion: version,
            name: networkName(delegates, nth),
            ...plugin,
          }),
        }),
      );
      const inOrder = command === "ADD" ? steps : steps.toReversed();
      return { name: `${containerId}-${command}`, steps: inOrder };
    },
  };
}

/** The same through Plexus. */
export function throughPlexus(
  place: Place,
  delegates: Delegates,
  extra: Record<string, string> = {},
): Contender {
  const conf = {
    cniVersion: version,
    name: "plexus",
    type: "plexus",
    delegates: [network(delegates, 0)],
  };
  return executable(place, {
    name: "Plexus",
    label: `plexus-${delegates.name}${extra.PLEXUS_TRACE ?? ""}`,
    program: place.shim,
    stdin: JSON.stringify(conf),
    env: { ...shimEnvironment(place), ...extra },
  });
}

/** Any other CNI executable: `BENCH_OTHER="name=multus;exe=/opt/cni/bin/multus;conf=/path/conf.json"`. */
export function fromEnvironment(place: Place, value: string | undefined): Contender[] {
  return (value ?? "")
    .split("|")
    .filter((text) => text.trim() !== "")
    .map((text) => {
      const fields = new Map(text.split(";").map((field) => split(field.trim())));
      const [name, program, conf] = ["name", "exe", "conf"].map((key) => fields.get(key));
      if (name === undefined || program === undefined || conf === undefined) {
        throw new Error(
          `BENCH_OTHER: ${JSON.stringify(text)} must be name=NAME;exe=PATH;conf=FILE`,
        );
      }
      return executable(place, {
        name,
        label: `other-${name}`,
        program,
        stdin: readFileSync(conf, "utf8"),
        env: {},
      });
    });
}

function split(field: string): [string, string] {
  const equals = field.indexOf("=");
  return [field.slice(0, equals), field.slice(equals + 1)];
}

/** A CNI executable as a contender. */
interface Executable {
  readonly name: string;
  /** Begins the container IDs, which differ between contenders. */
  readonly label: string;
  readonly program: string;
  readonly stdin: string;
  readonly env: Readonly<Record<string, string>>;
}

function executable(
  place: Place,
  { name, label, program, stdin, env: own }: Executable,
): Contender {
  return {
    name,
    job(command, sandbox) {
      const containerId = `${label}-${sandbox}`;
      const call = { command, sandbox, containerId, ifName: "eth0" };
      const env = { ...environment(place, call), ...own };
      return { name: `${containerId}-${command}`, steps: [{ program, stdin, env }] };
    },
  };
}

/** A network as a configuration list. */
export function network(delegates: Delegates, nth: 0 | 1): object {
  return {
    cniVersion: version,
    name: networkName(delegates, nth),
    plugins: [delegates.plugins[nth]],
  };
}

function networkName(delegates: Delegates, nth: number): string {
  return `${delegates.name}-${nth === 0 ? "default" : "second"}`;
}
