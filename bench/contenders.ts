import { readFileSync } from "node:fs";
import { join } from "node:path";
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

function environment(
  place: Place,
  command: string,
  of: { sandbox: number; id: string; ifName: string },
): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    CNI_COMMAND: command,
    CNI_CONTAINERID: of.id,
    CNI_NETNS: `/run/netns/bench-${of.sandbox}`,
    CNI_IFNAME: of.ifName,
    CNI_PATH: place.cniPath,
    CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=bench;K8S_POD_NAME=pod-${of.sandbox};K8S_POD_INFRA_CONTAINER_ID=${of.id}`,
  };
}

/** The delegates alone, started as the runtime would start a plugin: the least that there can be. */
export function bareDelegates(place: Place, delegates: Delegates): Contender {
  return {
    name: "delegates alone",
    job(command, sandbox) {
      const id = `bare-${delegates.name}-${sandbox}`;
      const steps = delegates.plugins.map(
        (plugin, nth): Step => ({
          program: join(delegates.dirs[nth] ?? "", plugin.type),
          env: environment(place, command, { sandbox, id, ifName: nth === 0 ? "eth0" : "net1" }),
          stdin: JSON.stringify({
            cniVersion: version,
            name: networkName(delegates, nth),
            ...plugin,
          }),
        }),
      );
      return { name: `${id}-${command}`, steps: command === "ADD" ? steps : steps.toReversed() };
    },
  };
}

/** The same by Plexus. */
export function byPlexus(
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
    env: {
      PLEXUS_SOCKET: place.socket,
      PLEXUS_STATE_DIR: place.state,
      PLEXUS_STANDALONE: "",
      ...extra,
    },
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

function executable(
  place: Place,
  of: { name: string; label: string; program: string; stdin: string; env: Record<string, string> },
): Contender {
  return {
    name: of.name,
    job(command, sandbox) {
      const id = `${of.label}-${sandbox}`;
      const env = { ...environment(place, command, { sandbox, id, ifName: "eth0" }), ...of.env };
      return { name: `${id}-${command}`, steps: [{ program: of.program, stdin: of.stdin, env }] };
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
