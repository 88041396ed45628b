import { defaultEngineConfig } from "#engine/config.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { statusChanged } from "../api/exchange.ts";
import { WriteQueue } from "../api/write-queue.ts";
import { runtimeConf } from "../node/networks.ts";
import { upgradeConf } from "../node/plexusd.ts";
import type { Runtime } from "../node/runtime.ts";
import { inProcess } from "../world/remote.ts";
import type { Process } from "../world/schedule.ts";
import { putDefinition } from "./definitions.ts";
import type { Mischief } from "./draw/mischief.ts";
import { startPlexusd, stopEndpoints, upgradePlexusd } from "./machine.ts";
import { mirrorOf } from "./mirror.ts";
import { type Stage, sidesOf } from "./stage.ts";

const { delGraceMs } = defaultEngineConfig;

/** After it, calls may be slow for other reasons. */
const disturbanceUs = 60e6;

/** Plans everything that does not happen at a port. @returns when the last of it is over, in µs */
export function makeMischief(stage: Stage): number {
  const { scenario, world } = stage;
  const { schedule } = world;
  let lastUs = 0;
  for (const each of scenario.mischief) {
    const { atMs, forMs } = timesOf(each);
    lastUs = Math.max(lastUs, (atMs + forMs) * 1000);
    if ("event" in each) {
      const count = (): void => schedule.beforeEvent(each, (owner) => happen(stage, each, owner));
      if (atMs === 0) count();
      else schedule.at(atMs * 1000, count, schedule.outside);
    } else if (!("nth" in each))
      schedule.at(atMs * 1000, () => happen(stage, each, schedule.outside));
    // Other faults at a port, and children of plugins, may make any later call slow.
    else if (!delaysItsCallOnly(each)) stage.properties.disturb(Number.POSITIVE_INFINITY);
  }
  return lastUs;
}

/** Whether it concerns a plugin that leaves nothing running. */
function delaysItsCallOnly(mischief: Mischief): boolean {
  if (mischief.kind === "delegate") return !mischief.behaviour.endsWith("child");
  return mischief.kind === "slow delegate";
}

function timesOf(mischief: Mischief): { atMs: number; forMs: number } {
  const forMs = "forMs" in mischief ? mischief.forMs : 0;
  if ("fromMs" in mischief) return { atMs: mischief.fromMs ?? 0, forMs };
  return { atMs: "atMs" in mischief ? mischief.atMs : 0, forMs };
}

/** `owner` is the process whose event is the moment. */
function happen(stage: Stage, mischief: Mischief, owner: Process): void {
  const { world, properties, api, faults } = stage;
  const { schedule } = world;
  if (faults.isOver) return;
  world.note(() => `mischief: ${JSON.stringify(mischief)}`);
  properties.disturb(timesOf(mischief).forMs * 1000 + disturbanceUs);
  switch (mischief.kind) {
    case "kill":
      kill(stage, owner);
      faults.nextDelegateMs = mischief.slowMs;
      break;
    case "power loss":
      world.losePower();
      break;
    case "stop":
      stop(stage, owner, mischief.forMs);
      break;
    case "disk full":
    case "plugin missing":
    case "definition removed":
    case "definition changed":
    case "definition mistyped":
    case "API busy":
    case "API down":
    case "DEL failing":
    case "ADD failing":
    case "plugin not executable":
    case "next plugin failing":
    case "PATCHes":
    case "plexusd away":
      schedule.at(mischief.forMs * 1000, breakOff(stage, mischief), schedule.outside);
      break;
    case "primary upgraded":
      upgradePrimary(stage);
      break;
    case "API restart":
      api.compact();
      api.restart();
      break;
    case "clock step":
    case "suspend":
      // Set back while the power is off, the clock dates files of the last boot into the next one.
      if (stage.isOn || mischief.byMs > 0) world.clockOffsetMs += mischief.byMs;
      break;
    default:
      if (stage.isOn) happenOnNode(stage, mischief);
  }
}

/** Begins what lasts for a time. @returns what ends it */
function breakOff(stage: Stage, mischief: Mischief): () => void {
  const { world, api, faults } = stage;
  switch (mischief.kind) {
    case "disk full":
      faults.isDiskFull = true;
      return () => {
        faults.isDiskFull = false;
      };
    case "plugin missing":
      world.missingPlugins.add(mischief.type);
      loseLater(stage, mischief);
      return () => world.missingPlugins.delete(mischief.type);
    case "PATCHes":
      faults.patches = mischief.outcome;
      return () => {
        faults.patches = undefined;
      };
    case "DEL failing":
      world.failingDels.add(mischief.type);
      loseLater(stage, mischief);
      return () => world.failingDels.delete(mischief.type);
    case "ADD failing":
      world.failingAdds.set(mischief.type, mischief.how);
      return () => world.failingAdds.delete(mischief.type);
    case "plugin not executable":
      world.unexecutable.add(mischief.type);
      loseLater(stage, mischief);
      return () => world.unexecutable.delete(mischief.type);
    case "next plugin failing":
      world.isNextFailing = true;
      return () => {
        world.isNextFailing = false;
      };
    case "plexusd away":
      stage.isAway = true;
      stage.plexusd?.stop();
      return () => {
        stage.isAway = false;
        startPlexusd(stage);
      };
    case "definition removed":
      api.removeNad(`default/${mischief.network}`);
      return () => putDefinition(api, mischief.network);
    case "definition changed":
      putDefinition(api, mischief.network, mischief.network === "storage" ? "data" : "storage");
      return () => putDefinition(api, mischief.network);
    case "definition mistyped":
      putDefinition(api, mischief.network, "mistyped");
      return () => putDefinition(api, mischief.network);
    case "API busy":
      api.writes = new WriteQueue(mischief);
      return () => {
        api.writes = undefined;
      };
    case "API down":
      api.stop();
      return () => {
        if (mischief.killsPlexusd && stage.plexusd !== undefined)
          kill(stage, stage.plexusd.process);
        if (api.isDown) api.start();
      };
    default:
      throw new Error(`${mischief.kind} has no end`);
  }
}

/** What Plexus gives up after the grace period. */
function loseLater(
  { world, properties }: Stage,
  { kind, type, forMs }: { readonly kind: string; readonly type: string; readonly forMs: number },
): void {
  if (forMs <= delGraceMs) return;
  const { schedule } = world;
  const lost = kind === "DEL failing" ? properties.failedPlugins : properties.lostPlugins;
  schedule.at(delGraceMs * 1000, () => void lost.add(type), schedule.outside);
}

/** Its agent has written its configuration anew. */
function upgradePrimary({ world, runtime, scenario }: Stage): void {
  world.isPrimaryUpgraded = true;
  const conf = runtimeConf({ ...scenario, isUpgraded: true });
  runtime.configure(conf);
  upgradeConf(world.disk, scenario);
}

function stop({ world }: Stage, process: Process, forMs: number): void {
  const { schedule } = world;
  schedule.stop(process);
  schedule.at(forMs * 1000, () => schedule.resume(process), schedule.outside);
}

function happenOnNode(stage: Stage, mischief: Mischief): void {
  const { world, runtime, kubelet } = stage;
  const { kernel } = world;
  const [sandbox] = runtime.sandboxes.values();
  switch (mischief.kind) {
    case "plexusd restart":
      stage.plexusd?.stop();
      break;
    case "plexusd upgrade":
      upgradePlexusd(stage);
      break;
    case "endpoints restart":
      stopEndpoints(stage);
      break;
    case "call":
      call(stage.runtime, stage.scenario.runtime, mischief.command);
      break;
    case "second call":
      if (stage.second !== undefined) call(stage.second.runtime, "CRI-O", mischief.command);
      break;
    case "foreign status":
      writeStatus(stage, mischief.text);
      break;
    case "new mirror":
      makeMirror(stage);
      break;
    case "pod removed":
      removePod(stage, mischief.forMs);
      break;
    case "namespace gone":
      if (sandbox === undefined) return;
      kernel.removeNamespace(sandbox.netns);
      kubelet.notice(sandbox.pod);
      break;
    case "sandbox forgotten":
      if (sandbox === undefined || sandbox.state !== "ready") return;
      runtime.sandboxes.delete(sandbox.id);
      // A namespace goes with its pod. The kubelet replaces the sandbox of a pod that stays.
      if (!mischief.keepsPod || world.random.chance(0.5)) kernel.removeNamespace(sandbox.netns);
      if (mischief.keepsPod) kubelet.notice(sandbox.pod);
      else kubelet.delete(sandbox.pod);
  }
}

function call(
  runtime: Runtime,
  kind: "containerd" | "CRI-O",
  command: "GC" | "STATUS" | "CHECK",
): void {
  const make = (): Promise<unknown> => {
    if (command === "CHECK") return runtime.check();
    // containerd never makes a GC.
    const isGc = command === "GC" && kind === "CRI-O";
    return isGc ? runtime.collectGarbage() : runtime.status();
  };
  void inProcess(runtime.process, make).catch(() => undefined);
}

/** Takes a pod from the API, and has the kubelet notice it later. */
function removePod({ api, kubelet, world }: Stage, forMs: number): void {
  const [pod] = kubelet.pods;
  if (pod === undefined) return;
  const key = `${pod.namespace}/${pod.name}`;
  // The next pod may have the name already.
  if (api.podOf(key, pod.uid) !== undefined) api.removePod(key);
  const { schedule } = world;
  schedule.at(forMs * 1000, () => kubelet.delete(pod), schedule.outside);
}

/** Another component writes, as soon as the API server runs. */
function writeStatus(stage: Stage, text: string | null): void {
  const { api, kubelet, world } = stage;
  const [pod] = kubelet.pods;
  if (pod === undefined) return;
  const key = `${pod.namespace}/${pod.name}`;
  if (api.isDown) world.schedule.at(1e6, () => writeStatus(stage, text), world.schedule.outside);
  else if (api.podOf(key, pod.uid) !== undefined)
    api.annotatePod(key, { [networkStatusAnnotation]: text });
  statusChanged();
}

/** The kubelet makes the deleted mirror of a static pod anew. */
function makeMirror({ api, kubelet, world }: Stage): void {
  const [pod] = kubelet.pods;
  if (pod === undefined || api.isDown) return;
  const key = `${pod.namespace}/${pod.name}`;
  const present = api.podOf(key, pod.uid);
  if (present === undefined) return;
  const [, nth] = present.metadata.uid.split("-");
  const mirror = mirrorOf(pod, Number(nth) + 1);
  api.removePod(key);
  const { schedule, random } = world;
  const create = (): void => {
    if (api.isDown) schedule.at(1e6, create, schedule.outside);
    // Another pod may have the name by then.
    else if (kubelet.pods.includes(pod) && api.pod(key) === undefined) api.putPod(mirror);
  };
  schedule.at(random.duration(1000, 2e6), create, schedule.outside);
}

/** Who starts plexusd and the agent starts them again. */
function kill(stage: Stage, victim: Process): void {
  const { schedule, random } = stage.world;
  if (!stage.isOn) return;
  schedule.kill(victim);
  const runtime = sidesOf(stage).find(({ runtime }) => runtime.process === victim)?.runtime;
  if (runtime === undefined) return;
  const restart = (): void => {
    // Another kill or a power loss may have restarted it.
    if (stage.isOn && !runtime.process.isAlive) runtime.restart();
  };
  schedule.at(random.duration(100_000, 5e6), restart);
}
