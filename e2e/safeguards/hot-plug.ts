import type { Mutation } from "./mutation.ts";

/** Safeguards of changes of running pods. */
export const hotPlugMutations: readonly Mutation[] = [
  {
    name: "attachmentPolicy holds for running pods, too",
    file: "src/engine/plan/requested-networks.ts",
    find: "policy !== undefined &&",
    replace: "false &&",
    properties: ["permitted"],
  },
  {
    name: "the record names a network before it is plugged into a running pod",
    file: "src/engine/hotplug/change-networks.ts",
    find: "await record.updateAhead();",
    properties: ["recorded"],
    isSlow: true,
    scenario:
      "edit plug net2, ADD net2/bridge:after plexusd kill; repaired after DEL; netns removed",
  },
  {
    name: "a network that cannot be unplugged stays recorded",
    file: "src/engine/hotplug/change-networks.ts",
    find: "const left = failure === undefined ? [] : [failure.left];",
    replace: "const left: DetachableAttachment[] = [];",
    properties: ["asserted", "as requested"],
    isSlow: true,
  },
  {
    name: "a pod keeps its routes to the cluster before another network is attached",
    file: "src/engine/add/attach-networks.ts",
    find: "await beforeOthers?.();",
    replace: "await undefined;",
    properties: ["cluster routes"],
  },
  {
    name: "a hot-plug that failed is tried again",
    file: "src/daemon/pods/watched-pod.ts",
    find: "this.#wakeAt(this.#retryAt);",
    properties: ["as requested"],
    isSlow: true,
  },
  {
    name: "an edit that breaks a rule changes nothing",
    file: "src/engine/hotplug/change-networks.ts",
    find: "plan.problems.length === 0 ? changes.removals : leftOf(changes)",
    replace: "changes.removals",
    properties: ["as requested"],
    isSlow: true,
  },
  {
    name: "plugins are looked up before a running pod's networks change",
    file: "src/engine/plan/further-networks.ts",
    find: "if (problems.length === 0) await requirePlugins(ctx, networks.map(withIpam), searchPath);",
    properties: ["as requested"],
    isSlow: true,
  },
  {
    name: "a network that cannot be plugged leaves the others of its pod",
    file: "src/engine/hotplug/change-networks.ts",
    find: "noteOperation(sandbox, op, { network, error });",
    replace:
      "noteOperation(sandbox, op, { network, error });\n  if (error !== undefined) throw error;",
    properties: ["as requested"],
    isSlow: true,
  },
  {
    name: "what could not be unplugged is tried again",
    file: "src/engine/hotplug/changes.ts",
    find: "requested.filter((each) => !stay.has(each) && isPart(each.ifName)).toReversed();",
    replace:
      'requested.filter((each) => !stay.has(each) && isPart(each.ifName) && each.state !== "owed").toReversed();',
    properties: ["as requested", "status eventually", "in the end"],
    isSlow: true,
  },
  {
    name: "an edit does not take a running pod's default route",
    file: "src/engine/hotplug/plan-changes.ts",
    find: "const problems: PlanProblem[] = defaultRouteProblems(changes);",
    replace:
      "const problems: PlanProblem[] = defaultRouteProblems({ removals: [], additions: [] });",
    properties: ["as requested", "default routes"],
  },
  {
    name: "a plugged network takes no default route",
    file: "src/engine/add/default-route/plan.ts",
    find: "withoutHops(defaultsOf(state, family), own)",
    replace: "withoutHops(defaultsOf(state, family), new Set())",
    properties: ["default routes"],
    isSlow: true,
  },
  {
    name: "a running pod is compared with its annotation when plexusd starts",
    file: "src/daemon/pods/hot-plug.ts",
    find: "this.#pods.set(key, watched);\n    watched.wake();",
    replace: "this.#pods.set(key, watched);",
    properties: ["as requested"],
    isSlow: true,
  },
  {
    name: "another boot ID does not keep hot-plug from a sandbox",
    file: "src/engine/network-status/latest-sandbox.ts",
    find: "mayBeOfThisBoot(deps, each)",
    replace: "each.bootId === deps.bootId()",
    properties: ["as requested", "never what runs", "status eventually"],
    isSlow: true,
  },
  {
    name: "the interfaces of an element with several devices are kept together",
    file: "src/engine/hotplug/changes.ts",
    find: "...[...kept.values()].flatMap(groupOf)",
    replace: "...kept.values()",
    properties: ["as requested"],
    isSlow: true,
  },
];
