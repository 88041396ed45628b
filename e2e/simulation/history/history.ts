import { ApiServer } from "../api/api-server.ts";
import { Kubelet } from "../node/kubelet.ts";
import { removeRevived, watchAppended, watchRevived } from "../node/mesh-agent.ts";
import { deviceCounts, runtimeConf } from "../node/networks.ts";
import { installConf, restorePrimary, startStandalone } from "../node/plexusd.ts";
import { podNetns, Runtime, type SimulatedPod } from "../node/runtime.ts";
import { Properties, type Violation } from "../properties.ts";
import { ProcessEndedError } from "../world/disk/errors.ts";
import { Disk } from "../world/disk.ts";
import { Kernel, randomUuid } from "../world/kernel.ts";
import { Random } from "../world/random.ts";
import { inProcess } from "../world/remote.ts";
import { Process, Schedule } from "../world/schedule.ts";
import { enterWorld, type World } from "../world/world.ts";
import { annotationsOf, scheduleEdits } from "./annotation.ts";
import { putDefinitions, restoreDefinitions } from "./definitions.ts";
import type { Mischief } from "./draw/mischief.ts";
import { checkEnd, checkRunning, recordNames } from "./end.ts";
import { losePower, startMachine } from "./machine.ts";
import { mirrorOf } from "./mirror.ts";
import { makeMischief } from "./mischief.ts";
import { PlannedFaults } from "./planned-faults.ts";
import type { PodScenario, Scenario } from "./scenario.ts";
import { type Side, type Stage, sidesOf } from "./stage.ts";

/** How a history ended. */
export interface HistoryEnd {
  readonly violation: Violation | undefined;
  /** Equal for two runs of the same scenario. */
  readonly fingerprint: string;
  readonly events: number;
}

/** How long the first part may take, with all that goes wrong, and the repair at the end. */
const limitUs = { first: 900e6, repair: 3600e6, whole: 2 * 3600e6 };

/** Longer than plexusd leaves the sandboxes of earlier boots and missing pods alone. */
const graceUs = 900e6;

let present: Properties | undefined;

/** A promise that a killed process left unsettled may reject, as nothing runs that would handle it. */
process.on("unhandledRejection", unexpected);

function unexpected(error: unknown): void {
  if (error instanceof ProcessEndedError) return;
  present?.violate("unexpected", error instanceof Error ? (error.stack ?? "") : String(error));
}

/** Runs a scenario to its end. `note` gets a line for everything that happens. */
export async function runHistory(
  scenario: Scenario,
  note?: (line: string) => void,
): Promise<HistoryEnd> {
  const stage = setUp(scenario, note);
  const { schedule, random } = stage.world;
  present = stage.properties;
  schedule.onError = unexpected;
  let isOver = false;
  const direct = async (): Promise<void> => {
    await playFirstPart(stage);
    await repair(stage);
    isOver = true;
  };
  // Node reports no rejection while events run.
  schedule.at(1, () => void direct().catch(unexpected));
  await schedule.run(() => {
    if (schedule.nowUs > limitUs.whole) stage.properties.violate("in the end", "it never ends");
    return isOver || stage.properties.violation !== undefined;
  });
  // Node reports promises that nothing handles between two turns.
  await new Promise((resolve) => globalThis.setImmediate(resolve));
  const fingerprint = `${schedule.count} ${schedule.nowUs} ${random.next()}`;
  return { violation: stage.properties.violation, fingerprint, events: schedule.count };
}

function setUp(scenario: Scenario, note: ((line: string) => void) | undefined): Stage {
  const random = new Random(scenario.seed + 0.5 * 2 ** 32);
  const schedule = new Schedule(random);
  const disk = new Disk();
  const faults = new PlannedFaults(random, scenario.mischief);
  const isRunning = (id: string): boolean => {
    const sandbox = runtime.sandboxes.get(id) ?? second?.runtime.sandboxes.get(id);
    return sandbox?.state === "ready" && world.kernel.hasNamespaceOf(sandbox);
  };
  const properties = new Properties({
    isRunning,
    hotPlug: scenario.hotPlug,
    lacksRoom: scenario.mischief.some(isShortOfRoom),
    stops: scenario.mischief.filter(({ kind }) => kind === "stop").length,
  });
  const world: World = {
    ...{ random, schedule, faults, disk, kernel: firstKernel(scenario, random, disk) },
    ...{ daemon: undefined, onDaemonChange: new Set(), missingPlugins: new Set() },
    ...{
      isAgentBlind: scenario.others.isAgentBlind,
      devices: new Map(),
      meshAdds: new Map(),
      failingDels: new Set(),
      failingAdds: new Map(),
      unexecutable: new Set(),
      isNextFailing: false,
      isPrimaryUpgraded: false,
    },
    standalones: new Map(),
    startStandalone: scenario.hasStandalone ? () => startStandalone(scenario) : undefined,
    ...{ observer: properties, api: new ApiServer() },
    clockOffsetMs: Date.UTC(2026, 0, 1),
    losePower: () => losePower(stage),
    note: (text) => note?.(`${(schedule.nowUs / 1000).toFixed(3)} ${text()}`),
  };
  enterWorld(world);
  installConf(disk, scenario);
  if (scenario.others.mesh !== undefined)
    watchAppended((types) => {
      properties.violate("beside others", `plexusd has removed ${types.join()} from its file`);
    });
  const { api } = world;
  api.changesStatuses = scenario.changesStatuses;
  const onCall: ConstructorParameters<typeof Runtime>[0]["onCall"] = {
    started: (command, sandbox) => properties.callStarted(command, sandbox),
    ended: (end) => properties.callEnded(end),
  };
  const runtime = new Runtime({
    ...{ kind: scenario.runtime, client: "kubelet", conf: runtimeConf(scenario), onCall },
    readsConf: scenario.others.mesh !== undefined,
    passesAnnotations: scenario.passesAnnotations,
  });
  const kubelet = new Kubelet(runtime, {
    started: (pod) => scenario.hotPlug && reportStatus(world, api, pod),
    ended: ({ namespace, name, uid }) => {
      const key = `${namespace}/${name}`;
      // The next pod may have the name already.
      if (api.podOf(key, uid) !== undefined) api.removePod(key);
    },
  });
  const second = secondSide(scenario, onCall);
  const stage: Stage = {
    ...{ scenario, world, faults, properties, api, runtime, kubelet, second },
    ...{
      plexusd: undefined,
      endpoints: new Set(),
      meshAgent: undefined,
      isMeshGone: false,
      isMeshRevived: false,
      isAway: false,
      isOn: true,
      edited: new Map(),
      forgotten: [],
    },
  };
  if (scenario.others.mesh !== undefined)
    watchRevived(() => {
      stage.isMeshRevived = true;
    });
  return stage;
}

function firstKernel({ others }: Scenario, random: Random, disk: Disk): Kernel {
  const boot = { clockFromUs: -1000 * others.uptimeMs };
  if (!others.hasTwoBootIds) return new Kernel(random, disk, boot);
  return new Kernel(random, disk, { ...boot, containerBootId: randomUuid(random) });
}

/** A second runtime with its own list, whose containers are no pods of the cluster. */
function secondSide(
  { cniVersion, others }: Scenario,
  onCall: ConstructorParameters<typeof Runtime>[0]["onCall"],
): Side | undefined {
  if (others.second === undefined) return undefined;
  const { client, defaultNetwork } = others.second;
  const conf = runtimeConf({ cniVersion, defaultNetwork, name: "second" });
  const runtime = new Runtime({
    // It stores a container before it is attached, as nerdctl does.
    ...{ kind: "CRI-O", client, conf, onCall },
    ...{ passesAnnotations: false, readsConf: false },
  });
  const nothing = (): void => undefined;
  return { runtime, kubelet: new Kubelet(runtime, { started: nothing, ended: nothing }) };
}

/** Updates the pod's status, so that watches deliver it again. */
function reportStatus(world: World, api: ApiServer, pod: SimulatedPod): void {
  const { schedule } = world;
  const key = `${pod.namespace}/${pod.name}`;
  if (api.isDown) schedule.at(5e6, () => reportStatus(world, api, pod), schedule.outside);
  else if (api.pod(key)?.metadata.uid === pod.uid)
    api.annotatePod(key, { "simulation/status": String(schedule.nowUs) });
}

function isShortOfRoom(mischief: Mischief): boolean {
  if (mischief.kind === "disk full") return true;
  return mischief.kind === "disk" && ["ENOSPC", "EROFS"].includes(mischief.fault);
}

/** Has the pods live, and things go wrong, until nothing more is to happen. */
async function playFirstPart(stage: Stage): Promise<void> {
  const { scenario, world, api } = stage;
  const { schedule } = world;
  putDefinitions(api, scenario);
  startMachine(stage);
  scenario.pods.forEach((pod, index) => {
    schedule.at(pod.startMs * 1000, () => startPod(stage, pod, index));
  });
  scenario.others.second?.containers.forEach(({ startMs, lifeMs }, index) => {
    schedule.at(startMs * 1000, () => startContainer(stage, index, lifeMs));
  });
  const lastUs = makeMischief(stage);
  const { containers = [] } = scenario.others.second ?? {};
  const all = [...scenario.pods, ...containers];
  const endsMs = all.map(({ startMs, lifeMs = 0 }) => startMs + lifeMs + 1);
  await schedule.sleep(Math.max(lastUs, 1000 * Math.max(...endsMs, 0)) + 500_000);
  await schedule.until(() => unsettled(stage) === 0, limitUs.first);
}

/** What runtimes run is not yet as it should be. */
function unsettled(stage: Stage): number {
  return sidesOf(stage).reduce((sum, { kubelet }) => sum + kubelet.unsettled, 0);
}

/** A container of the second runtime has the name that a pod of the cluster may have, too. */
function startContainer({ second, world, faults }: Stage, index: number, lifeMs?: number): void {
  if (second === undefined || faults.isOver) return;
  const name = `pod-${index}`;
  const pod = { namespace: "", name, uid: `container-${index}`, annotations: {} };
  second.kubelet.create(pod);
  if (lifeMs !== undefined) world.schedule.at(lifeMs * 1000, () => second.kubelet.delete(pod));
}

function nameIndex(pods: readonly PodScenario[], index: number): number {
  const { isSuccessor } = pods[index] ?? {};
  return isSuccessor && index > 0 ? nameIndex(pods, index - 1) : index;
}

/** Deletes the pod that has the name, and tries again. */
function succeed(stage: Stage, plan: PodScenario, index: number): void {
  const { schedule } = stage.world;
  const before = stage.kubelet.pods.find(({ uid }) => uid === `pod-uid-${index - 1}`);
  if (before !== undefined) stage.kubelet.delete(before);
  schedule.at(1e6, () => startPod(stage, plan, index), schedule.outside);
}

function startPod(stage: Stage, plan: PodScenario, index: number): void {
  const { api, kubelet, scenario, world } = stage;
  if (stage.faults.isOver) return;
  const annotations = annotationsOf(scenario, plan.networks);
  const name = `pod-${nameIndex(scenario.pods, index)}`;
  // The kubelet runs one static pod of a name, also while it makes the mirror anew.
  const isTaken = scenario.isStatic && kubelet.pods.some((other) => other.name === name);
  if (isTaken || api.pod(`default/${name}`) !== undefined) {
    succeed(stage, plan, index);
    return;
  }
  const pod: SimulatedPod = {
    ...{ namespace: "default", name, uid: `pod-uid-${index}`, annotations },
    deviceCount: Math.max(0, ...plan.networks.map((network) => deviceCounts[network] ?? 0)),
  };
  world.note(() => `pod ${name} is created, networks ${plan.networks.join(",")}`);
  api.putPod(scenario.isStatic ? mirrorOf(pod, 1) : pod);
  kubelet.create(pod);
  scheduleEdits(stage, pod, plan);
  if (plan.lifeMs === undefined) return;
  world.schedule.at(plan.lifeMs * 1000, () => {
    world.note(() => `pod ${name} is deleted`);
    kubelet.delete(pod);
  });
}

/** Removes every cause of failures, waits until the node is as it should be, then empties it. */
async function repair(stage: Stage): Promise<void> {
  const { world, faults, runtime, properties } = stage;
  const { schedule } = world;
  world.note(() => "everything is repaired");
  faults.isOver = true;
  if (stage.api.isDown) stage.api.start();
  restoreDefinitions(stage.api, stage.scenario);
  if (stage.scenario.others.mesh !== undefined) restorePrimary(world.disk, stage.scenario);
  if (stage.isMeshRevived) removeRevived();
  world.missingPlugins.clear();
  world.failingDels.clear();
  world.failingAdds.clear();
  world.unexecutable.clear();
  world.isNextFailing = false;
  properties.disturb(120e6);
  const endUs = schedule.nowUs + limitUs.repair;
  const isStopped = (): boolean => stage.plexusd?.process.delayed !== undefined;
  const isReady = (): boolean =>
    stage.isOn && stage.plexusd?.isServing === true && !isStopped() && unsettled(stage) === 0;
  const { mischief, others } = stage.scenario;
  const netnsOf = (id: string): string => podNetns(stage.scenario.runtime, id);
  const unmount = (): void => {
    for (const id of leftovers(stage)) world.kernel.removeNamespace(netnsOf(id));
  };
  // The pod's next sandbox needs the device, which is in the namespace of the one that the runtime has forgotten; or it
  // is refused, after four of them.
  const forgotten = mischief.filter(({ kind }) => kind === "sandbox forgotten").length;
  if (others.hasDevices || forgotten >= 4) unmount();
  if (!(await schedule.until(isReady, endUs)))
    return properties.violate("in the end", `${unsettled(stage)} pods are not settled`);
  const nudge = async (): Promise<void> => {
    await inProcess(runtime.process, () => runtime.nudge()).catch(() => undefined);
  };
  // What the runtime has forgotten stays as long as its pod, or the namespace of a sandbox that was replaced.
  const isReplaced = (id: string): boolean =>
    [...runtime.sandboxes.values()].some(({ pod }) => pod === runtime.podOf.get(id));
  const isTidy = (): boolean =>
    leftovers(stage).every((id) => world.kernel.hasNamespace(netnsOf(id)) || !isReplaced(id));
  if (!(await schedule.until(isTidy, endUs, nudge)))
    return properties.violate("in the end", `beside running pods: ${leftovers(stage).join()}`);
  const isOver = schedule.nowUs + (others.isLong ? graceUs : 0);
  await schedule.until(() => schedule.nowUs > isOver, endUs, nudge);
  await checkRunning(stage);
  unmount();
  // The plugin of a mesh that has ended is missing.
  if (others.mesh === undefined) properties.calmSinceUs = schedule.nowUs;
  for (const { kubelet } of sidesOf(stage)) for (const pod of kubelet.pods) kubelet.delete(pod);
  const isEmpty = (): boolean =>
    unsettled(stage) === 0 && !isBusy() && leftovers(stage).length === 0;
  await schedule.until(isEmpty, endUs, nudge);
  await checkEnd(stage);
}

/** Whether a call still runs, or something that plugins have left. */
function isBusy(): boolean {
  return [...Process.alive].some(({ name }) => /^(shim|child)/.test(name));
}

/** What is attached, or recorded, for sandboxes that the runtime does not have. */
function leftovers(stage: Stage): string[] {
  const { world, properties } = stage;
  const attached = world.kernel.attached().filter((made) => !properties.mayStay(made));
  const ids = [
    ...attached.map(({ containerId }) => containerId),
    ...recordNames(world.disk).map((name) => name.slice(0, name.indexOf("@"))),
  ];
  const runtimes = sidesOf(stage).map(({ runtime }) => runtime);
  return ids.filter((id) => runtimes.every(({ sandboxes }) => !sandboxes.has(id)));
}
