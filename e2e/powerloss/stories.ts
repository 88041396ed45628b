import { type Flavour, flavour } from "../support/flavour.ts";

/** A life of a pod that is recorded: an ADD, in some an edit of its annotation, and its DELs, as a scenario of the fault matrix. */
export interface Story {
  readonly name: string;
  /** A line of `e2e/chaos/scenario.ts`. */
  readonly scenario: string;
  /** Whether the edit and the DEL wait until progress and results are durable. */
  readonly pause?: boolean;
}

/** Stories in which the engine fails. */
const ofEngine: Readonly<Record<Flavour, readonly Story[]>> = {
  daemon: [
    { name: "plexusd is killed in an ADD", scenario: "ADD net2/bridge:after plexusd kill" },
    {
      name: "plexusd is killed in a DEL",
      scenario: "DEL net1/macvlan:after plexusd kill; repaired after DEL",
    },
    {
      name: "without plexusd the shim detaches",
      scenario: "DEL start plexusd kill; repaired after DEL",
      pause: true,
    },
    {
      name: "a network is replaced, later DEL",
      scenario: "edit replace net2; repaired before DEL",
      pause: true,
    },
    {
      name: "plexusd is killed while a network is plugged",
      scenario: "edit plug net2, ADD net2/bridge:after plexusd kill; repaired after DEL",
    },
    {
      name: "plexus-standalone attaches and detaches",
      scenario:
        "ADD start standalone takes-over; DEL start standalone takes-over; repaired after DEL",
    },
  ],
  standalone: [
    {
      name: "plexus-standalone is killed in an ADD",
      scenario: "ADD net2/bridge:after standalone kill",
    },
    {
      name: "plexus-standalone is killed in a DEL",
      scenario: "DEL net1/macvlan:after standalone kill",
    },
  ],
};

/** Of a pod with the three networks of the fault matrix. */
export const stories: readonly Story[] = [
  { name: "ADD, later DEL", scenario: "repaired before DEL", pause: true },
  { name: "ADD, at once DEL", scenario: "repaired before DEL" },
  {
    name: "the last network's ADD fails",
    scenario: "ADD net2/bridge:before delegate fail",
  },
  {
    name: "a DEL fails and is repeated",
    scenario: "DEL net1/macvlan:before delegate fail",
    pause: true,
  },
  ...ofEngine[flavour],
];
