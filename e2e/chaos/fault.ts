import { type Flavour, flavour } from "../support/flavour.ts";
import { networks } from "./lab/topology.ts";

/** The calls that faults are put into. */
export type Operation = "ADD" | "DEL";

/**
 * When in a call a fault happens:
 * - `start`: before the runtime starts the call.
 * - `request`: the engine has the request and has not ordered anything.
 * - `before`, `after`: a plugin runs and has done nothing, or all.
 * - `ipam`, `ipam-done`: the same for its address plugin, while the plugin waits.
 * - `between`: a plugin has ended and the next order has not come.
 * - `end`: the call has returned.
 */
const moments = [
  "start",
  "request",
  "before",
  "ipam",
  "ipam-done",
  "after",
  "between",
  "end",
] as const;
export type Moment = (typeof moments)[number];

/** A moment of a call, of the plugin that `ifName` and `plugin` name if it belongs to one. */
interface Step {
  readonly moment: Moment;
  readonly ifName?: string;
  readonly plugin?: string;
}

/** Something that breaks, and how. */
export interface FaultKind {
  readonly target: string;
  readonly action: string;
  /** The moments at which it can happen. */
  readonly moments: readonly Moment[];
}

/** One fault of a run. */
export interface Fault {
  readonly operation: Operation;
  readonly step: Step;
  readonly target: string;
  readonly action: string;
}

const always = moments;
const inside: readonly Moment[] = moments.filter((m) => m !== "start" && m !== "end");
const unlessDone: readonly Moment[] = moments.filter((m) => m !== "end");
const ownActions = ["hang", "garbage", "flood", "fail"];

function kindsOf(
  target: string,
  actions: readonly string[],
  at: readonly Moment[],
): readonly FaultKind[] {
  return actions.map((action) => ({ target, action, moments: at }));
}

/** What happens to the engine. plexus-standalone is a process of one call. */
const engineKinds: Readonly<Record<Flavour, readonly FaultKind[]>> = {
  daemon: [
    ...kindsOf("plexusd", ["kill", "stop"], always),
    ...kindsOf("standalone", ["takes-over"], unlessDone),
  ],
  standalone: kindsOf("standalone", ["kill", "stop"], inside),
};

/** Every kind of fault of the matrix; those of `release` and `standalone` need something installed. */
export const faultKinds: readonly FaultKind[] = [
  ...engineKinds[flavour],
  ...kindsOf("shim", ["kill", "stop"], inside),
  // Its address plugin hangs, and no process is left that would end it.
  ...kindsOf("shim", ["kill-while-hung"], ["ipam", "ipam-done"]),
  ...kindsOf("delegate", ["kill", "stop"], ["before", "ipam", "ipam-done", "after"]),
  ...kindsOf("delegate", ownActions, ["before", "after"]),
  ...kindsOf("grandchild", ["kill", "stop", ...ownActions], ["ipam", "ipam-done"]),
  ...kindsOf("plugin", ["missing"], ["before", "ipam"]),
  ...kindsOf("plugin", ["lost"], ["before"]),
  ...kindsOf("plugin", ["moved"], unlessDone),
  ...kindsOf("disk", ["full", "no-inode"], unlessDone),
  ...kindsOf("disk", ["read-only"], ["start"]),
  ...kindsOf("api", ["500", "hang", "gone"], unlessDone),
  ...kindsOf("shim", ["previous-release"], ["start"]),
];

/** Every step of a call with its three networks, in the order of ADD. */
const steps: readonly Step[] = [
  { moment: "start" },
  { moment: "request" },
  ...networks.flatMap(({ ifName, plugins }) =>
    plugins.flatMap(({ type }, nth) =>
      (["before", "ipam", "ipam-done", "after", "between"] as const)
        .filter((moment) => nth === 0 || !moment.startsWith("ipam"))
        .map((moment): Step => ({ moment, ifName, plugin: type })),
    ),
  ),
  { moment: "end" },
];

/** Every fault that the matrix has: each kind at each step that it can happen at, in ADD and in DEL. */
export function everyFault(kinds: readonly FaultKind[] = faultKinds): Fault[] {
  return (["ADD", "DEL"] as const).flatMap((operation) =>
    kinds.flatMap(({ target, action, moments: at }) =>
      steps
        .filter((step) => at.includes(step.moment) && (action !== "lost" || canBeLost(step)))
        .map((step): Fault => ({ operation, step, target, action })),
    ),
  );
}

/**
 * Whether a plugin may be lost for good: only one that makes interfaces, as these go with the namespace. Only the
 * plugin itself can remove rules and queues on the host.
 */
function canBeLost({ plugin }: Step): boolean {
  return networks.some(({ plugins }) => plugins[0]?.type === plugin);
}

/** `ADD net1/macvlan:ipam grandchild kill`. */
export function formatFault(fault: Fault): string {
  return `${fault.operation} ${formatStep(fault.step)} ${fault.target} ${fault.action}`;
}

/** @throws Error naming the text when it is no fault of the matrix */
export function parseFault(text: string): Fault {
  const found = everyFault().find((fault) => formatFault(fault) === text.trim());
  if (found === undefined) throw new Error(`${JSON.stringify(text)} is no fault of the matrix`);
  return found;
}

/** `start`, or `net1/macvlan:ipam`. */
function formatStep({ moment, ifName, plugin }: Step): string {
  return ifName === undefined ? moment : `${ifName}/${plugin}:${moment}`;
}
