import { type Delegates, noops, realPlugins } from "./delegates.ts";
import type { Effort } from "./effort.ts";

/** One case of the comparison. */
export interface Case {
  readonly id: string;
  readonly title: string;
  readonly set: Delegates;
  readonly width: number;
  readonly rounds: number;
  readonly pauseMs?: number;
  /** Other objects of the cluster: definitions that no pod asks for, and pods of this node. */
  readonly crowd?: { readonly nads: number; readonly pods: number };
}

export const noop = noops(2, "noop");
export const real = realPlugins(1, "real");
const five = realPlugins(4, "five");
const none = realPlugins(0, "none");

/** All that pods are attached to in the cases. */
export const sets = [noop, real, five, none];

/** Longer than Plexus's deferred fsync and than the kernel's grace periods. */
const pauseMs = 700;

/** The cases that are wanted, in their order. */
export function casesFor(effort: Effort): Case[] {
  return allCases(effort).filter(({ id }) => effort.wants(id));
}

function allCases({ quick, rounds }: Effort): Case[] {
  const one = { width: 1, rounds };
  const many = (width: number, full: number): Case => ({
    id: `real-${width}`,
    title: `ptp and macvlan, ${width} pods at once`,
    set: real,
    width,
    rounds: quick ? 1 : Math.ceil((full * rounds) / 200),
  });
  const few = quick ? Math.ceil(rounds / 2) : Math.min(rounds, 100);
  return [
    { id: "noop", title: "two plugins that do nothing", set: noop, ...one },
    { id: "real", title: "ptp and macvlan, both with host-local", set: real, ...one },
    {
      id: "real-pause",
      title: "ptp and macvlan, DEL after a pause",
      set: real,
      width: 1,
      rounds: few,
      pauseMs,
    },
    { id: "none", title: "a pod without annotation: ptp alone", set: none, ...one },
    { id: "five", title: "five networks: ptp and four macvlans", set: five, width: 1, rounds: few },
    {
      id: "crowd",
      title: "ptp and macvlan, 1,000 definitions and 250 pods",
      set: real,
      ...one,
      crowd: { nads: 1000, pods: 250 },
    },
    many(20, 20),
    many(50, 8),
    ...(quick ? [] : [many(100, 5)]),
  ];
}
