/** A safeguard taken out of the product, and a scenario that then leaves something, or is never answered. */
export interface Mutation {
  /** The safeguard. */
  readonly name: string;
  /** Below the checkout: of the shim (C) or the engine (TypeScript). */
  readonly file: string;
  /** Text that occurs once in the file, and what replaces it. */
  readonly find: string;
  readonly replace: string;
  readonly scenario: string;
  /** What is left, and nothing else. @default anything */
  readonly leaves?: readonly RegExp[];
}

/** Safeguards that a scenario of the matrix rests on alone. */
export const mutations: readonly Mutation[] = [
  {
    name: "the shim replays the teardown plan when no engine answers",
    file: "shim/replay.c",
    find: "enum cni_error plan_replay(struct call *call, struct buf *failures)\n{\n",
    replace:
      "enum cni_error plan_replay(struct call *call, struct buf *failures)\n{\n\tif (now_us() > 0)\n\t\treturn CNI_OK;\n",
    scenario: "DEL start plexusd kill; repaired after DEL",
  },
  {
    name: "the shim does not wait without limit for an engine that hangs",
    file: "shim/call.c",
    find: 'call->silence_ms = setting_ms("PLEXUS_SILENCE_MS", SILENCE_MS);',
    replace: "call->silence_ms = 0;",
    scenario: "DEL net2/bridge:before plexusd stop; repaired after DEL",
  },
  {
    name: "killing a delegate kills its process group",
    file: "shim/exec.c",
    find: "kill(-d->pid, SIGKILL);",
    replace: "(void)d;",
    scenario: "ADD net2/bridge:ipam grandchild hang",
  },
  {
    name: "delegates inherit their sandbox's lock",
    file: "shim/exec.c",
    find: "PIPES + (call->inherited_lock >= 0), f",
    replace: "PIPES, f",
    scenario: "ADD net2/bridge:ipam shim kill-while-hung",
  },
  {
    name: "a delegate that outlives its shim is killed",
    file: "shim/lock.c",
    find: "end_holders(call->lock, group);",
    replace: "(void)end_holders;",
    scenario: "DEL eth0/ptp:ipam-done shim kill-while-hung",
  },
  {
    name: "the plan records which attachments were attempted",
    file: "src/engine/add/attach-networks.ts",
    find: "() => record.updateAhead()",
    replace: "async () => undefined",
    // While the namespace is there, the pod's annotation is a second safeguard.
    scenario: "ADD net2/bridge:after plexusd kill; netns removed",
  },
  {
    name: "a failed ADD detaches what it attached",
    file: "src/engine/add/add.ts",
    find: "await rollBack(ctx, record);",
    replace: "await ctx.deps.records.finish(request);",
    scenario: "ADD net2/bandwidth:before delegate fail",
  },
  {
    name: "a DEL that could not detach everything keeps the record",
    file: "src/engine/del/detach-record.ts",
    find: "if (failures.length === 0)",
    replace: "if (failures.length < 99)",
    scenario: "DEL net2/bridge:before delegate fail",
  },
  {
    name: "a failed plugin is ignored only if it leaves nothing on the host",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "if (leavingNothingOutside.has(call.type) && (",
    replace: "if ([leavingNothingOutside] && (",
    scenario: "DEL net1/host-address:before delegate fail; repaired after DEL; netns removed",
    leaves: [
      /^\+ addresses: up0 fd00:74::[0-9a-f]*\/128$/,
      /^\+ routes: fd00:74::[0-9a-f]* dev up0 /,
    ],
  },
  {
    name: "a DEL waits for a missing plugin to return",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "if (missingMs >= missingPluginGraceMs) return;",
    replace: "if (missingMs >= 0) return;",
    scenario: "DEL eth0/portmap:before plugin missing; repaired after DEL",
  },
  {
    name: "only an attachment whose ADD failed is forgotten",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "if (call !== this.#chain.calls[this.#endedAdd]) return false;",
    replace: "if (call.type !== null) return true;",
    scenario: "DEL net2/bandwidth:before delegate fail; repaired after DEL; netns removed",
  },
  {
    name: "the record names a plugged network before its first plugin runs",
    file: "src/engine/hotplug/running-networks.ts",
    find: "await record.updateAhead();",
    replace: "void record;",
    scenario:
      "edit plug net2, ADD net2/bridge:after plexusd kill; repaired after DEL; netns removed",
  },
  {
    name: "a record that another process finished is not restored",
    file: "src/records/file-store.ts",
    find: 'throw new Error("the sandbox was detached meanwhile")',
    replace:
      "return void this.#open.put(path, { bytes: formatRecord(record, plan), value: { record, plan } })",
    scenario: "DEL net1/macvlan:before plexusd stop; repaired after DEL",
  },
];
