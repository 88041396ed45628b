import { join } from "node:path";
import { cniEnvironment } from "../e2e/support/node/cni-environment.ts";
import { type Delegates, singleConf } from "./delegates.ts";
import { CpuGroup } from "./measure/accounting.ts";
import { type Job, Runner, type Step } from "./measure/runner.ts";
import { namespace, podName, podUid } from "./objects.ts";
import type { Multus } from "./peers/multus.ts";
import { namespaces, type Place } from "./place.ts";
import { multusThick, multusThin, type Program, plexus, standalone } from "./programs.ts";

/** One call for one pod. */
interface Call {
  readonly command: "ADD" | "DEL";
  readonly set: Delegates;
  /** The pod's number; its namespace is `bench-N`, and round again from the first when there are more pods. */
  readonly sandbox: number;
  /** Has Plexus print its phases on stderr. */
  readonly trace?: boolean;
  /** Where inspect.c is to report the memory of each process of the call. */
  readonly inspect?: string;
}

/** A way to attach a pod to its networks. */
export interface Contender {
  readonly id: ContenderId;
  readonly name: string;
  /** Starts its calls, in a separate process, so that their CPU time can be measured. */
  readonly runner: Runner;
  readonly cpu: CpuGroup | undefined;
  job(call: Call): Job;
}

export type ContenderId = "direct" | "plexus" | "plexus-standalone" | "multus" | "multus-thick";

/** The contenders in the order of their first turn. Requests to the API carry their ID as a token. */
export function contendersOf(place: Place, multus: Multus | undefined): Contender[] {
  const runnerFor = (id: ContenderId): Pick<Contender, "id" | "runner" | "cpu"> => {
    const runner = new Runner(place.runner, join(place.dir, "jobs", id));
    const cpu = CpuGroup.create(place.cpuGroups, id);
    cpu?.add(runner.pid);
    return { id, runner, cpu };
  };
  const by = (id: ContenderId, name: string, program: Program): Contender => ({
    ...runnerFor(id),
    name,
    job: (call) => job(id, call, [step(place, call, { id, program })]),
  });
  const direct: Contender = {
    ...runnerFor("direct"),
    name: "delegates alone",
    job: (call) => job("direct", call, directSteps(place, call)),
  };
  const ours = [
    direct,
    by("plexus", "Plexus", plexus(place)),
    by("plexus-standalone", "Plexus standalone", standalone(place)),
  ];
  if (multus === undefined) return ours;
  return [
    ...ours,
    by("multus", "Multus thin", multusThin(place, multus)),
    by("multus-thick", "Multus thick", multusThick(place, multus)),
  ];
}

/** A job's name is what its files are kept by: whatever makes it another job is in it. */
function job(id: ContenderId, call: Call, steps: Step[]): Job {
  const variant = `${call.trace === true ? "t" : ""}${call.inspect === undefined ? "" : "i"}`;
  return { name: [id, call.set.name, call.sandbox, call.command, variant].join("-"), steps };
}

/** The plugins one after the other, as a runtime starts a plugin: the least that there can be. */
function directSteps(place: Place, call: Call): Step[] {
  const steps = call.set.plugins.map((plugin, nth): Step => {
    const ifName = nth === 0 ? "eth0" : `net${nth}`;
    return {
      program: join(place.plugins, plugin.type),
      env: environment(place, call, { id: "direct", ifName }),
      stdin: JSON.stringify(singleConf(call.set, nth)),
    };
  });
  return call.command === "ADD" ? steps : steps.toReversed();
}

function step(
  place: Place,
  call: Call,
  { id, program }: { id: ContenderId; program: Program },
): Step {
  const { inspect } = call;
  return {
    program: inspect === undefined ? program.path : place.inspect,
    env: {
      ...environment(place, call, { id, ifName: "eth0" }),
      ...program.env,
      ...(call.trace === true && { PLEXUS_TRACE: "1" }),
      ...(inspect !== undefined && { INSPECT_PROGRAM: program.path, INSPECT_REPORT: inspect }),
    },
    stdin: JSON.stringify(program.stdin(call.set)),
  };
}

function environment(
  place: Place,
  { command, set, sandbox }: Call,
  { id, ifName }: { id: ContenderId; ifName: string },
): Record<string, string> {
  const name = podName(set, sandbox);
  const call = {
    containerId: `${id}-${name}`,
    netns: `/run/netns/bench-${sandbox % namespaces}`,
    ifName,
    pod: { namespace, name, uid: podUid(name) },
  };
  return {
    PATH: process.env.PATH ?? "",
    ...cniEnvironment({ command, cniPath: place.plugins, sandbox: call }),
  };
}
