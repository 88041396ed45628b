import { type Fault, formatFault, type Moment } from "../fault.ts";
import { type Network, networks, spareNetwork } from "../lab/topology.ts";

/** An edit of a running pod's annotation: a network is unplugged, plugged again, or replaced under its interface's name. */
export interface Edit {
  readonly change: "unplug" | "plug" | "replace";
  readonly ifName: string;
  /** What breaks meanwhile. @default nothing */
  readonly fault?: Fault;
}

const pluginMoments = ["before", "after"] as const satisfies readonly Moment[];
const ipamMoments = ["ipam", "ipam-done"] as const satisfies readonly Moment[];

/** What breaks while plugins run. Those of `agent` are only for edits. */
const kinds = [
  { target: "plexusd", actions: ["kill"], moments: [...pluginMoments, ...ipamMoments, "between"] },
  { target: "agent", actions: ["kill"], moments: [...pluginMoments, ...ipamMoments, "between"] },
  { target: "delegate", actions: ["kill", "fail"], moments: pluginMoments },
  { target: "grandchild", actions: ["kill", "fail"], moments: ipamMoments },
] as const;

/** Every edit that a run can have. */
function everyEdit(): Edit[] {
  return networks.slice(1).flatMap((network) => {
    const { ifName } = network;
    const of = (change: Edit["change"], faults: Fault[]): Edit[] => [
      { change, ifName },
      ...faults.map((fault) => ({ change, ifName, fault })),
    ];
    const spare = { ...spareNetwork, ifName };
    return [
      ...of("unplug", faultsOf("DEL", network)),
      ...of("plug", faultsOf("ADD", network)),
      ...of("replace", [...faultsOf("DEL", network), ...faultsOf("ADD", spare)]),
    ];
  });
}

function faultsOf(operation: Fault["operation"], { ifName, plugins }: Network): Fault[] {
  return kinds.flatMap(({ target, actions, moments }) =>
    actions.flatMap((action) =>
      plugins.flatMap(({ type: plugin }, nth) =>
        moments
          .filter((moment) => nth === 0 || !moment.startsWith("ipam"))
          .map((moment) => ({ operation, step: { moment, ifName, plugin }, target, action })),
      ),
    ),
  );
}

/** `edit replace net2, DEL net2/bridge:ipam agent kill`. */
export function formatEdit({ change, ifName, fault }: Edit): string {
  const edit = `edit ${change} ${ifName}`;
  return fault === undefined ? edit : `${edit}, ${formatFault(fault)}`;
}

/** @throws Error naming the text when no run can have it */
export function parseEdit(text: string): Edit {
  const found = everyEdit().find((edit) => formatEdit(edit) === text.trim());
  if (found === undefined) throw new Error(`${JSON.stringify(text)} is no edit of the matrix`);
  return found;
}

/**
 * The edits for a scenario with these faults. The fault of a DEL concerns another network, which the
 * edit leaves attached. A disk with an agent's lock file on it cannot be made read-only.
 */
export function editsBeside(faults: readonly Fault[]): Edit[] {
  if (faults.some(({ action }) => action === "read-only")) return [];
  const inDel = faults.flatMap((f) => (f.operation === "DEL" ? (f.step.ifName ?? []) : []));
  return everyEdit().filter(({ ifName }) => !inDel.includes(ifName));
}
