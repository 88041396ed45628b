import type { CallCase, IfName, ShimCase, ShimCaseEnd } from "./shim-cases.ts";

/** A case that is written out, with what it leads to. */
interface FixedCase extends ShimCaseEnd {
  readonly name: string;
  readonly case: ShimCase;
}

type PlanCase = Exclude<ShimCase["record"], undefined>;

const del: CallCase = { command: "DEL", netns: "", engine: undefined, killed: "none" };

/** An ADD whose engine looks plugins up or has one run, and then dies. */
function interrupted(by: "lookup" | "ADD" | "DEL"): CallCase {
  const order = { type: "tuning", containerId: "c1", netns: "", ifName: "works" } as const;
  const isFinding = by === "lookup";
  const orders = isFinding ? [] : [{ ...order, command: by }];
  const engine = { isFinding, requires: [], orders, isPipelined: false, end: "dies" } as const;
  return { ...del, command: "ADD", engine };
}

function withPlan(calls: readonly CallCase[], parts: Partial<PlanCase>): ShimCase {
  const usual = { steps: plan("works"), attempted: 3, isOfThisBoot: true } as const;
  const record = { ...usual, damage: "none", mode: 0o600, ...parts } as const;
  const others = { hasTombstone: false, isEngineOnly: false, other: undefined };
  return { record, ...others, defaultPlan: undefined, calls };
}

/** Two steps in a group, one before and one after it. */
function plan(second: IfName): PlanCase["steps"] {
  const ifNames = ["works", second, "works-too", "works-too"] as const;
  return ifNames.map((ifName, n) => ({ ifName, group: [2, 1, 1, 0][n] ?? 0 }));
}

function dels(...ifNames: readonly IfName[]): string[] {
  return ifNames.map((ifName) => `DEL c1 ${ifName} ''`);
}

const all = dels("works", "works", "works-too", "works-too");
const detached = ["c1@eth0.detached 1600 empty"];

/** Of a replay that succeeds, and of the repeated DEL. */
const replayed = { answers: [], statuses: ["0", "0"], files: detached };
/** Of a record that is not replayed. */
const refused = { executed: [], answers: [], statuses: ["1 6"] };

/** Replays of plans. */
export const fixedCases: readonly FixedCase[] = [
  ...[
    { name: "all attempted", parts: {}, executed: all },
    { name: "one attempted", parts: { attempted: 1 }, executed: dels("works-too") },
    { name: "none attempted", parts: { attempted: 0 }, executed: [] },
    { name: "another boot", parts: { attempted: 0, isOfThisBoot: false }, executed: all },
  ].map(({ name, parts, executed }) => ({
    name: `a plan with ${name} is replayed in order, once`,
    case: withPlan([del, del], parts),
    ...replayed,
    executed,
  })),
  {
    name: "a replay skips the rest of a group after a failure, and keeps the marked record",
    case: withPlan([del], { steps: plan("fails") }),
    ...{ executed: dels("works", "fails", "works-too"), answers: [], statuses: ["1 102"] },
    files: ["c1@eth0.record 1600"],
  },
  {
    name: "an ADD is rolled back if the engine dies after a plugin's ADD",
    case: withPlan([interrupted("ADD")], {}),
    ...{ executed: ["ADD c1 works ''", ...all], answers: ["exited 1"], statuses: ["1 11"] },
    files: detached,
  },
  {
    name: "an ADD leaves the plan of an earlier sandbox if the engine dies while it detaches that",
    case: withPlan([interrupted("DEL")], {}),
    ...{ executed: dels("works"), answers: ["exited 0"], statuses: ["1 11"] },
    files: ["c1@eth0.record 600"],
  },
  {
    name: "an ADD is not rolled back if the engine dies after a lookup, which changes nothing",
    case: withPlan([interrupted("lookup")], {}),
    ...{ executed: [], answers: ["found,missing"], statuses: ["1 11"] },
    files: ["c1@eth0.record 600"],
  },
  {
    name: "a replay leaves the namespace that another sandbox has",
    case: {
      ...withPlan([{ ...del, netns: "pod" }], {}),
      other: { netns: "pod", mode: 0o600 },
    },
    ...{ executed: [], answers: [], statuses: ["1 11"] },
    files: ["c1@eth0.record 1600", "c2@eth0.record 600"],
  },
  ...(
    [
      { name: "for another sandbox", parts: { damage: "of another" }, mode: "1600" },
      { name: "that is altered", parts: { damage: "altered" }, mode: "1600" },
      { name: "that others may read", parts: { mode: 0o644 }, mode: "644" },
    ] as const
  ).map(({ name, parts, mode }) => ({
    name: `a record ${name} fails a DEL with code 6`,
    case: withPlan([del], parts),
    ...refused,
    files: [`c1@eth0.record ${mode}`],
  })),
];
