import type { SourceChange } from "./bundle.ts";
import type { Property } from "./properties.ts";

/** A safeguard taken out of the product, or out of the model of the shim. */
interface SimulatedMutation extends SourceChange {
  /** The safeguard. */
  readonly name: string;
  /** Without it, one of these is violated. */
  readonly properties: readonly Property[];
  /** Whether CI searches it: a few hundred histories are enough. @default false */
  readonly isQuick?: boolean;
}

/** Safeguards whose absence the search finds. */
export const mutations: readonly SimulatedMutation[] = [
  {
    name: "the shim replays the teardown plan when no engine answers",
    file: "e2e/simulation/node/shim.ts",
    find: "const undone = await planReplay(call);",
    replace: "const undone = undefined as Awaited<ReturnType<typeof planReplay>>;",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "the plan records which attachments were attempted",
    file: "src/engine/add/attach-networks.ts",
    find: "() => record.updateAhead()",
    replace: "async () => undefined",
    properties: ["recorded"],
    isQuick: true,
  },
  {
    name: "a failed ADD detaches what it attached",
    file: "src/engine/add/add.ts",
    find: "await rollBack(ctx, record);",
    replace: "await records.finish(request);",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "a DEL that could not detach everything keeps the record",
    file: "src/engine/del/detach-record.ts",
    find: "if (failures.length === 0)",
    replace: "if (failures.length < 99)",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "a failed plugin is ignored only if it leaves nothing on the host",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "if (leavingNothingOutside.has(call.type) && (",
    replace: "if ([leavingNothingOutside] && (",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "a DEL waits for a missing plugin to return",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "failingMs < missingPluginGraceMs",
    replace: "failingMs < 0",
    properties: ["detached at once"],
  },
  {
    name: "only an attachment whose ADD failed is forgotten",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "if (call !== this.#chain.calls[this.#endedAdd]) return false;",
    replace: "if (call.type !== null) return true;",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "the record is written before the first delegate runs",
    file: "src/engine/add/add.ts",
    find: '  const { durable } = await ctx.trace.phase("record", () => record.create());\n  try {\n    const { attached, kernel } = await attachNetworks(ctx, record, { attachments, recordBytes });',
    replace:
      "  try {\n    const { attached, kernel } = await attachNetworks(ctx, record, { attachments, recordBytes });\n    const { durable } = await record.create();",
    properties: ["recorded"],
    isQuick: true,
  },
  {
    name: "a record's directory entry is synced",
    file: "src/records/open-files.ts",
    find: "Promise.all([syncFile(fd), syncDirectory(this.#dir)])",
    replace: "Promise.all([syncFile(fd)])",
    properties: ["durable", "in the end"],
    isQuick: true,
  },
  {
    name: "a record's content is synced",
    file: "src/records/open-files.ts",
    find: "Promise.all([syncFile(fd), syncDirectory(this.#dir)])",
    replace: "Promise.all([syncDirectory(this.#dir)])",
    properties: ["durable", "in the end"],
    isQuick: true,
  },
  {
    name: "later calls retry leftovers",
    file: "src/engine/engine.ts",
    find: 'if (!this.#deps.repeatsTeardowns || !["DEL", "STATUS", "GC"].includes(command)) return;',
    replace: "if (path !== undefined) return;",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "GC detaches only sandboxes that the runtime did not list",
    file: "src/engine/gc/gc.ts",
    find: "fromRuntime === undefined || containers.has(containerId);",
    replace: 'fromRuntime === undefined || (containers.size > 0 && containerId === "");',
    properties: ["never what runs", "durable"],
    isQuick: true,
  },
  {
    name: "a status write that fails is retried",
    file: "src/kube/status-publisher.ts",
    find: 'if (result !== "retried") continue;',
    replace: "if (taken !== undefined) continue;",
    properties: ["status eventually"],
    isQuick: true,
  },
  {
    name: "after a reboot a DEL detaches everything planned",
    file: "src/engine/record/record.ts",
    find: "if (bootId !== currentBootId) return attachments;",
    replace: 'if (bootId === currentBootId + "x") return attachments;',
    properties: ["in the end", "detached at once"],
    isQuick: true,
  },
  {
    name: "a network whose plugin failed counts as attempted",
    file: "src/engine/add/attach-networks.ts",
    find: "if (!isAttempted) record.note",
    replace: "if (!isAttempted || planned) record.note",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "the shim waits for delegates of earlier calls",
    file: "e2e/simulation/node/shim/lock.ts",
    find: "await awaitStragglers(call, sandbox);",
    replace: 'if (call.command === "") await awaitStragglers(call, sandbox);',
    properties: ["bounded", "one at a time", "ended at once"],
    isQuick: true,
  },
  {
    name: "a replay that fails keeps the record",
    file: "e2e/simulation/node/shim/replay.ts",
    find: "  if (failures.length > 0) return notDetached(failures);\n  try {",
    replace: "  try {",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "files are closed after their sync",
    file: "src/records/open-files.ts",
    find: "      close(file);\n    });",
    replace: "    });",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "a released record is closed",
    file: "src/records/open-files.ts",
    find: "    this.#files.delete(path);\n    close(file);",
    replace: "    this.#files.delete(path);",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "a housekeeping task that fails runs again",
    file: "src/serving/housekeeping.ts",
    find: "task.run().then(() => undefined, errorMessage)",
    replace: "task.run().then(() => undefined)",
    properties: ["unexpected"],
    isQuick: true,
  },
  {
    name: "a rollback that fails keeps what is left",
    file: "src/engine/add/roll-back.ts",
    find: "if (failures.length === 0) return await",
    replace: "if (failures.length < 99) return await",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "a plugin whose state was in the namespace does not keep a sandbox forever",
    file: "src/engine/del/chain/netns.ts",
    find: 'leavingNothingOutside: ReadonlySet<string> = new Set(["sbr"]);',
    replace: "leavingNothingOutside: ReadonlySet<string> = new Set([]);",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "a replayed plan's record is removed",
    file: "e2e/simulation/node/shim/replay.ts",
    find: "    planForget(call);\n",
    replace: "",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "the record of a failed DEL names what remains",
    file: "src/engine/del/teardown-progress.ts",
    find: "this.#remaining.filter((each) => each !== attachment)",
    replace: "[]",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "the plan's number of attempted networks includes the current one",
    file: "src/engine/record/teardown-plan.ts",
    find: 'attachments.findLastIndex(({ state }) => state !== "planned") + 1;',
    replace: 'attachments.findLastIndex(({ state }) => state === "attached") + 1;',
    properties: ["recorded"],
    isQuick: true,
  },
  {
    name: "a DEL detaches a network whose ADD was interrupted",
    file: "src/engine/record/record.ts",
    find: 'return attachments.filter(({ state }) => state !== "planned");',
    replace: 'return attachments.filter(({ state }) => state === "attached");',
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "a DEL fails if a plugin fails",
    file: "src/engine/del/chain/chain-teardown.ts",
    find: "if (!mayAccept || !(await this.#interfaceIsGone())) throw this.#failure(failed);",
    replace: "if (!mayAccept) return;",
    properties: ["detached at once"],
    isQuick: true,
  },
  {
    name: "the retry of a leftover releases the sandbox's lock",
    file: "src/engine/leftovers/leftovers.ts",
    find: "      using sandbox = this.#locks.tryAcquire(listed.containerId);\n      if (sandbox === undefined || !(",
    replace:
      "      const sandbox = this.#locks.tryAcquire(listed.containerId);\n      if (sandbox === undefined || !(",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "a record that cannot be written leaves no open file",
    file: "src/records/state-file.ts",
    find: "    closeSync(fd);\n    rmSync",
    replace: "    rmSync",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "the shim removes its lock file",
    file: "e2e/simulation/node/shim/lock.ts",
    find: "if (!lock.isInherited) world().disk.unlink(call.lockFile);",
    replace: "",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "the default network counts as attempted from the start",
    file: "src/engine/add/add-record.ts",
    find: 'i === 0 ? "attempted" : "planned"',
    replace: 'i < 0 ? "attempted" : "planned"',
    properties: ["recorded"],
    isQuick: true,
  },
  {
    name: "the shim does not wait without limit for an engine that hangs",
    file: "e2e/simulation/node/shim/session.ts",
    find: 'call.settingMs("PLEXUS_SILENCE_MS", 30_000) * 1000;',
    replace: 'call.settingMs("PLEXUS_SILENCE_MS", 1e9) * 1000;',
    properties: ["answered"],
  },
  {
    name: "killing a delegate kills its process group",
    file: "e2e/simulation/node/shim/exec.ts",
    find: "for (const child of this.#children) schedule.kill(child);",
    replace: "",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "a delegate that outlives its shim is killed",
    file: "e2e/simulation/node/shim/lock.ts",
    find: "lock.group?.kill();",
    replace: "",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "delegates inherit their sandbox's lock",
    file: "e2e/simulation/node/shim/exec.ts",
    find: "inherited?.pass(child);",
    replace: "",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "an ADD succeeds only when its record is on disk",
    file: "src/engine/add/finish-add.ts",
    find: "Promise.allSettled([updated, published, durable])",
    replace: "Promise.allSettled([updated, published])",
    properties: ["durable", "unexpected"],
  },
  {
    name: "a new list replaces the cache",
    file: "src/kube/watch/watch-cache.ts",
    find: "this.#objects = objects;",
    replace: "for (const [key, object] of objects) this.#objects.set(key, object);",
    properties: ["watched"],
  },
  {
    name: "an expired version leads to a new list",
    file: "src/kube/watch/watch-position.ts",
    find: 'restartReason(error) === "expired" || error.status === 404',
    replace: "error.status === 404",
    properties: ["watched"],
    isQuick: true,
  },
  {
    name: "an address that host-device leaves without a namespace is released",
    file: "src/engine/del/chain/ipam.ts",
    find: 'new Set(["host-device"])',
    replace: "new Set<string>()",
    properties: ["detached at once", "in the end"],
    isQuick: true,
  },
  {
    name: "a plugin that insists on its interface is repeated without a namespace",
    file: "src/engine/del/chain/netns.ts",
    find: 'new Set(["host-device", "vrf"])',
    replace: "new Set()",
    properties: ["in the end"],
    isQuick: true,
  },
  {
    name: "a status is recorded before it is written",
    file: "src/engine/add/finish-add.ts",
    find: "await record.update(omitUndefined({ pendingStatus }));",
    replace: "await record.update();",
    properties: ["status eventually"],
  },
  {
    name: "the state directory is swept",
    file: "src/daemon/housekeeping-tasks.ts",
    find: "run: () => records.sweep(),",
    replace: "run: async () => undefined,",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "locks of killed shims are swept",
    file: "src/records/sweep.ts",
    find: "...(await abandonedLocks(files)),",
    replace: "...(await abandonedLocks([])),",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "files from before the clock was set back are swept",
    file: "src/lib/elapsed.ts",
    find: "Math.abs(now - then)",
    replace: "now - then",
    properties: ["bounded"],
    isQuick: true,
  },
  {
    name: "a sandbox whose record lost its content is detached",
    file: "src/engine/leftovers/leftovers.ts",
    find: "isIncomplete && this.#graceIsOver()",
    replace: "isIncomplete && this.#startedAt < 0",
    properties: ["in the end", "bounded"],
    isQuick: true,
  },
];

/** A safeguard whose absence no history shows, and why. */
interface UnsearchedSafeguard {
  readonly safeguard: string;
  readonly reason: string;
}

/** Safeguards that other tests must show: unit tests, the fault matrix or the power losses. */
export const notExpressible: readonly UnsearchedSafeguard[] = [
  {
    safeguard: "a leftover is not retried while a shim replays its plan",
    reason: "three faults have to meet, which happens in one of some ten thousand histories",
  },
  {
    safeguard: "a rollback waits for a missing plugin of what was attached",
    reason: "two faults have to meet, which happens in one of some ten thousand histories",
  },
  {
    safeguard: "the shim locks a sandbox while another sandbox's call detaches it",
    reason: "three faults have to meet, which happens in one of some ten thousand histories",
  },
  {
    safeguard: "calls for a sandbox and retries of it run in turn",
    reason: "the two meet in one of many thousand histories",
  },
  {
    safeguard: "a record that another process finished is not restored",
    reason: "the restored record is a leftover, which later calls detach",
  },
  {
    safeguard: "a failed sync of a record that no caller waits for is handled",
    reason: "an ADD handles it too, and seldom does anything else create a record",
  },
  {
    safeguard: "the time for a leftover is limited",
    reason: "a DEL that hangs is a fault at a port, after which no call has to be quick",
  },
  {
    safeguard: "a leftover is retried with backoff",
    reason: "no property counts the attempts",
  },
  {
    safeguard: "a repeated DEL of a detached sandbox detaches no further networks",
    reason: "no plugin of the model leaves its link behind and succeeds",
  },
  {
    safeguard: "a pod counts as missing only after ten minutes",
    reason: "the namespace of a running sandbox exists, which is a safeguard too",
  },
  {
    safeguard: "a status is written only to the pod with its UID",
    reason: "no pod gets the name of an earlier one",
  },
  {
    safeguard: "a newer status replaces one that is being retried",
    reason:
      "the statuses of a pod's sandboxes differ in addresses only, which no property compares",
  },
  {
    safeguard: "a DEL withdraws the status that waits",
    reason: "the API server ends writes to a pod that does not exist",
  },
  {
    safeguard: "a DEL marks its record before anything else",
    reason: "the record becomes a leftover when its pod is gone, which is a safeguard too",
  },
  {
    safeguard: "GC excludes other operations in the shim",
    reason: "the lock inside plexusd is a safeguard too",
  },
  {
    safeguard: "a lock is taken again if its file was removed meanwhile",
    reason: "the lock inside plexusd is a safeguard too",
  },
  {
    safeguard: "operations on a sandbox exclude each other in the shim",
    reason: "the lock inside plexusd is a safeguard too",
  },
];
