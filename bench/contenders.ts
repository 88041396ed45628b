import { join } from "node:path";
import { type Call, cniVariables } from "./calls.ts";
import { singleConf } from "./delegates.ts";
import { listed } from "./effort.ts";
import { CpuGroup } from "./measure/accounting.ts";
import { type Job, Runner, type Step } from "./measure/runner.ts";
import type { FloorId } from "./peers/floor.ts";
import type { Multus } from "./peers/multus.ts";
import type { Place } from "./place.ts";
import {
  floor,
  multusThick,
  multusThin,
  type Program,
  plexus,
  type StandaloneId,
  standalone,
} from "./programs.ts";

/** A way to attach a pod to its networks. */
export interface Contender {
  readonly id: ContenderId;
  readonly name: string;
  /** Starts its calls, in a separate process, so that their CPU time can be measured. */
  readonly runner: Runner;
  readonly cpu: CpuGroup | undefined;
  job(call: Call): Job;
}

export type ContenderId =
  | "direct"
  | FloorId
  | "plexus"
  | "plexus-after"
  | "plexus-other"
  | StandaloneId
  | "multus"
  | "multus-thick";

/** The delegates alone, the floors and the builds of Plexus: a failed call of these is an error, not a result. */
export const ownContenders: readonly ContenderId[] = [
  "direct",
  "floor",
  "floor-duties",
  "plexus",
  "plexus-after",
  "plexus-other",
];

/**
 * The contenders in the order of their first turn; with BENCH_ONLY, those that it lists. Requests to the API carry
 * their ID as a token.
 */
export function contendersOf(place: Place, multus: Multus | undefined): Contender[] {
  const makers: Partial<Record<ContenderId, (id: ContenderId) => Contender>> = {
    direct: (id) => ({
      ...started(place, id),
      name: "delegates alone",
      job: (call) => job(id, call, directSteps(place, call)),
    }),
  };
  const add = (id: ContenderId, name: string, program: Program): void => {
    makers[id] = () => ({
      ...started(place, id),
      name,
      job: (call) => job(id, call, [step(place, call, { id, program })]),
    });
  };
  add("floor", "floor", floor(place, "floor"));
  add("floor-duties", "floor with duties", floor(place, "floor-duties"));
  for (const build of place.builds) add(build.id, build.name, plexus(build));
  add("floor-standalone", "floor of standalone", standalone(place, "floor-standalone"));
  add("plexus-standalone", "Plexus standalone", standalone(place, "plexus-standalone"));
  const furtherId = "plexus-standalone-further";
  add(furtherId, "Plexus standalone, further calls", standalone(place, furtherId));
  if (place.otherBuild !== undefined) {
    const id = "plexus-standalone-other";
    add(id, "Plexus standalone (other)", standalone(place, id));
  }
  if (multus !== undefined) {
    add("multus", "Multus thin", multusThin(place, multus));
    add("multus-thick", "Multus thick", multusThick(place, multus));
  }
  const only = listed("BENCH_ONLY");
  const ids = (Object.keys(makers) as ContenderId[]).filter((id) => only?.includes(id) ?? true);
  return ids.map((id) => makers[id]?.(id) as Contender);
}

/** A separate runner, in the contender's control group. */
function started(place: Place, id: ContenderId): Pick<Contender, "id" | "runner" | "cpu"> {
  const runner = new Runner(place.runner, join(place.dir, "jobs", id));
  const cpu = CpuGroup.create(place.cpuGroups, id);
  cpu?.add(runner.pid);
  return { id, runner, cpu };
}

/** A job's name is what its files are kept by: whatever makes it another job is in it. */
function job(id: ContenderId, call: Call, steps: Step[]): Job {
  const marks = {
    t: call.trace === true,
    i: call.inspect !== undefined,
    s: call.socket !== undefined,
  };
  const variant = Object.entries(marks)
    .map(([mark, is]) => (is ? mark : ""))
    .join("");
  return { name: [id, call.set.name, call.sandbox, call.command, variant].join("-"), steps };
}

/** The plugins one after the other, as a runtime starts a plugin: the least that there can be. */
function directSteps({ plugins }: Place, call: Call): Step[] {
  const steps = call.set.plugins.map(
    (plugin, nth): Step => ({
      program: join(plugins, plugin.type),
      env: withPath(cniVariables("direct", call, { plugins, nth })),
      stdin: JSON.stringify(singleConf(call.set, nth)),
    }),
  );
  return call.command === "ADD" ? steps : steps.toReversed();
}

function step(
  { plugins, inspect: inspector }: Place,
  call: Call,
  { id, program }: { id: ContenderId; program: Program },
): Step {
  const { inspect, socket } = call;
  return {
    program: inspect === undefined ? program.path : inspector,
    env: {
      ...withPath(cniVariables(id, call, { plugins })),
      ...program.env,
      ...(socket !== undefined && { PLEXUS_SOCKET: socket }),
      ...(call.trace === true && { PLEXUS_TRACE: "1" }),
      ...(inspect !== undefined && { INSPECT_PROGRAM: program.path, INSPECT_REPORT: inspect }),
    },
    stdin: JSON.stringify(program.stdin(call.set)),
  };
}

function withPath(variables: Record<string, string>): Record<string, string> {
  return { PATH: process.env.PATH ?? "", ...variables };
}
