/** A safeguard taken out of the product, and a scenario that then leaves something. */
export interface Mutation {
  /** The safeguard. */
  readonly name: string;
  /** Below the checkout: of the shim (C) or the engine (TypeScript). */
  readonly file: string;
  /** Text that occurs once in the file, and what replaces it. */
  readonly find: string;
  readonly replace: string;
  readonly scenario: string;
}

/** Every safeguard that a scenario of the matrix rests on alone. */
export const mutations: readonly Mutation[] = [
  {
    name: "the shim replays the teardown plan when no engine answers",
    file: "shim/plan.c",
    find: "int plan_replay(struct buf *why_not)\n{\n",
    replace: "int plan_replay(struct buf *why_not)\n{\n\tif (now_us() > 0)\n\t\treturn 0;\n",
    scenario: "DEL start plexusd kill; repaired after DEL",
  },
  {
    name: "a delegate dies with its shim",
    file: "shim/exec.c",
    find: "!prctl(PR_SET_PDEATHSIG, SIGKILL)",
    replace: "!prctl(PR_SET_PDEATHSIG, 0)",
    scenario: "ADD net2/bridge:before shim kill; repaired after DEL",
  },
  {
    name: "a delegate that is killed takes its process group with it",
    file: "shim/exec.c",
    find: "kill(-pid, SIGKILL);",
    replace: "",
    scenario: "ADD net2/bridge:ipam grandchild stop",
  },
  {
    name: "the record is there before the first delegate runs",
    file: "src/engine/attach/add.ts",
    find: 'await ctx.trace.phase("record", () => save(ctx, record));',
    replace: "",
    scenario: "ADD net2/bridge:after shim kill",
  },
  {
    name: "a failed ADD detaches what it attached",
    file: "src/engine/attach/add.ts",
    find: "await undo(ctx, withResults(record, attached), attempted);",
    replace: "await ctx.deps.records.remove(record);",
    scenario: "ADD net2/bandwidth:before delegate fail",
  },
  {
    name: "a DEL that could not detach everything keeps the record",
    file: "src/engine/detach/detach.ts",
    find: "if (failures.length > 0)",
    replace: "if (failures.length > 99)",
    scenario: "DEL net2/bridge:before delegate fail",
  },
];
