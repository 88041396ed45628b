import type { Mutation } from "./mutation.ts";

/** Safeguards of calls that attach, and of records. */
export const attachingMutations: readonly Mutation[] = [
  {
    name: "the plan records which attachments were attempted",
    file: "src/engine/add/attach-networks.ts",
    find: "() => record.updateAhead()",
    replace: "async () => undefined",
    properties: ["recorded"],
    scenario: "ADD net2/bridge:after plexusd kill; netns removed",
  },
  {
    name: "a failed ADD detaches what it attached",
    file: "src/engine/add/add.ts",
    find: "ctx.notes.notRolledBack = await rollBack(ctx, record);",
    replace: "await ctx.deps.records.finish(record.sandbox);",
    properties: ["detached at once"],
    scenario: "ADD net2/bandwidth:before delegate fail",
  },
  {
    name: "the record is written before the first delegate runs",
    file: "src/engine/add/add.ts",
    find: '  const { durable } = await ctx.trace.phase("record", () => record.create());\n  try {\n    const { attached, kernel } = await attachNetworks(ctx, record, networks);',
    replace:
      "  try {\n    const { attached, kernel } = await attachNetworks(ctx, record, networks);\n    const { durable } = await record.create();",
    properties: ["recorded"],
  },
  {
    name: "after a reboot a DEL detaches everything planned",
    file: "src/engine/del/planned-dels.ts",
    find: "  if (bootId !== currentBootId) return attachments;\n",
    properties: ["in the end", "detached at once"],
    isSlow: true,
  },
  {
    name: "a network whose plugin failed counts as attempted",
    file: "src/engine/add/attach-networks.ts",
    find: "const state = isAttempted ?",
    replace: "const state = isAttempted && planned.ifName === '' ?",
    properties: ["detached at once"],
  },
  {
    name: "a rollback that fails keeps what is left",
    file: "src/engine/add/roll-back.ts",
    find: "else if (errors.length === 0) ",
    replace: "else if (errors.length < 99) ",
    properties: ["detached at once"],
  },
  {
    name: "the plan's number of attempted networks includes the current one",
    file: "src/engine/del/planned-dels.ts",
    find: 'attachments.findLastIndex(({ state }) => state !== "planned") + 1;',
    replace: 'attachments.findLastIndex(({ state }) => state === "attached") + 1;',
    properties: ["recorded"],
  },
  {
    name: "a DEL detaches a network whose ADD was interrupted",
    file: "src/engine/del/planned-dels.ts",
    find: 'return attachments.filter(({ state }) => state !== "planned");',
    replace: 'return attachments.filter(({ state }) => state === "attached");',
    properties: ["detached at once"],
  },
  {
    name: "the default network counts as attempted from the start",
    file: "src/engine/add/add-record.ts",
    find: 'i === 0 ? "attempted" : "planned"',
    replace: 'i < 0 ? "attempted" : "planned"',
    properties: ["recorded"],
  },
  {
    name: "an address that host-device leaves without a namespace is released",
    file: "src/cni/runtime/ipam.ts",
    find: 'new Set(["accelerated-bridge", "host-device", "ib-sriov"])',
    replace: "new Set<string>()",
    properties: ["detached at once", "in the end"],
  },
  {
    name: "a status is recorded before it is written",
    file: "src/engine/add/finish-add.ts",
    find: "record.update(status)",
    replace: "record.update()",
    properties: ["status eventually"],
  },
  {
    name: "the default network leaves out what the runtime runs",
    file: "src/engine/plan/default-network.ts",
    find: "withoutOmitted(network.list, ctx.config.omittedPlugins ?? [])",
    replace: "withoutOmitted(network.list, [])",
    properties: ["in the end", "beside others"],
  },
  {
    name: "an interface for each device follows the order on the PCI bus",
    file: "src/engine/plan/devices/each-device.ts",
    find: "place(a) - place(b) || 0",
    replace: "0",
    properties: ["as requested"],
  },
];
