import { tryParseJson } from "#cni/document.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { type JsonObject, objectsOf } from "#lib/json.ts";
import { listFiles, omittedTypes, typesOf } from "../node/mesh-agent.ts";
import {
  clusterRanges,
  isGateway,
  isInvalid,
  isRefused,
  type NetworkName,
  routedFamilies,
} from "../node/networks.ts";
import { meshTypes } from "../node/plugins.ts";
import type { Sandbox } from "../node/runtime.ts";
import type { Disk } from "../world/disk.ts";
import { inProcess } from "../world/remote.ts";
import { hasFreeNames, interfacesOf, isOnceRight, requestedBy } from "./annotation.ts";
import type { MeshScenario } from "./others.ts";
import { type Stage, sidesOf } from "./stage.ts";

/** Names of files that stay when all pods are gone. */
const mayStayFile =
  /\.detached$|^default\.plan$|^primary-conf$|\.record$|\.damaged$|\.engine-only$/;
/** A status write waits at most this long before it is tried again. */
const statusUs = 150e6;
/** One that the API server has rejected is repeated within ten minutes. */
const rejectedUs = 700e6;
/** A failed hot-plug is tried again after at most five minutes, and then a plugin may take long. */
const hotPlugUs = 480e6;
/** For retries after which `explain` must be true. */
const explainedUs = 600e6;
/** For plexusd and the agent of a mesh to agree. */
const meshUs = 400e6;
/** For what follows the start of an agent. */
const startUs = 60e6;
/** Older than any file that plexusd keeps. */
const oldMs = 24 * 3_600_000;
/** Longer than a sweep takes on a disk that is busy. */
const sweepUs = 10e6;

/** What holds for the pods that run once everything is repaired. */
export async function checkRunning(stage: Stage): Promise<void> {
  const { kubelet, runtime, properties } = stage;
  await checkSecond(stage);
  await checkEndpoints(stage);
  if (stage.scenario.others.mesh !== undefined) await checkMesh(stage, stage.scenario.others.mesh);
  if (kubelet.pods.length === 0) return;
  if (stage.scenario.hotPlug) await checkRequested(stage);
  const misrouted = await lastProblem(stage, () => routesProblem(stage), hotPlugUs);
  if (misrouted !== undefined) properties.violate("default routes", misrouted);
  const lost = await lastProblem(stage, () => clusterProblem(stage), hotPlugUs);
  if (lost !== undefined) properties.violate("cluster routes", lost);
  for (const sandbox of runningSandboxes(stage)) checkAttached(stage, sandbox);
  const check = () => inProcess(runtime.process, () => runtime.check()).catch(() => true);
  // A plugin of hot-plug that hangs keeps the sandbox until its time limit.
  const isOk = (await check()) || (stage.scenario.hotPlug && (await check()));
  if (!isOk) properties.violate("never what runs", "a CHECK fails");
  const unseen = await lastProblem(stage, () => watchProblem(stage));
  if (unseen !== undefined) properties.violate("watched", unseen);
  // A removal whose link has gone is shown until its plugins have succeeded.
  const repeatUs = stage.scenario.hotPlug ? hotPlugUs : 0;
  const mayBeRejected = stage.scenario.mischief.some(({ kind }) => kind === "PATCHes");
  const waitUs = repeatUs + statusUs + (mayBeRejected ? rejectedUs : 0);
  const statuses = (): string | undefined =>
    runningSandboxes(stage)
      .map((sandbox) => statusProblem(stage, sandbox))
      .find((each) => each !== undefined);
  const problem = await lastProblem(stage, statuses, waitUs);
  if (problem !== undefined) properties.violate("status eventually", problem);
  const untrue = await untrueExplanation(stage);
  if (untrue !== undefined) properties.violate("explained", untrue);
}

/** What `explain` says wrongly of a pod, even after what may still be under way has ended. */
async function untrueExplanation(stage: Stage): Promise<string | undefined> {
  const { schedule } = stage.world;
  const untilUs = schedule.nowUs + explainedUs;
  for (;;) {
    const found = await untrueNow(stage);
    if (found === undefined || schedule.nowUs > untilUs) return found;
    await schedule.sleep(explainedUs / 10);
  }
}

async function untrueNow(stage: Stage): Promise<string | undefined> {
  const { plexusd, scenario } = stage;
  if (plexusd === undefined) return undefined;
  for (const sandbox of runningSandboxes(stage)) {
    const { namespace, name } = sandbox.pod;
    const explain = () => plexusd.explain({ namespace, name });
    const advice = await inProcess(plexusd.process, explain).catch(() => undefined);
    const wanted = wantedOf(stage, sandbox);
    const all = [`eth0 ${scenario.defaultNetwork}`, ...wanted].toSorted().join();
    const there = linksOf(stage, sandbox).toSorted().join();
    const isAsRequested = all === there && statusProblem(stage, sandbox) === undefined;
    // What was attached while its definition was another: the pod would not start again.
    const isFormer = requestedBy(stage, sandbox.pod).includes("forbidden");
    if (advice !== undefined && advice.ok !== (isAsRequested && !isFormer))
      return `pod ${name} requests ${all} and has ${there}, explain says ${advice.sentence}`;
  }
  return undefined;
}

/** The slices of the Service have the addresses that the pods' statuses show, none twice. */
async function checkEndpoints(stage: Stage): Promise<void> {
  const { api, scenario, properties } = stage;
  const name = `default/${scenario.service}`;
  const found = await lastProblem(stage, () => {
    const entries = Array.from(api.pods(), (pod) => statusOf(stage, pod.metadata.name)).flat();
    const shown = entries.flatMap((each) => (each.name === name ? (each.ips ?? []) : []));
    const slices = [...api.collection("endpointslices").objects.values()];
    const endpoints = slices.flatMap((slice) => objectsOf(slice.endpoints));
    const there = endpoints.flatMap(({ addresses }) => addresses);
    if (shown.toSorted().join() === there.toSorted().join()) return undefined;
    return `statuses show ${shown.join()} of ${name}, EndpointSlices have ${there.join()}`;
  });
  if (found !== undefined) properties.violate("endpoints eventually", found);
}

/** A container of the second runtime has its default network, whatever pod has its name. */
async function checkSecond({ second, scenario, properties, world }: Stage): Promise<void> {
  if (second === undefined) return;
  const { runtime } = second;
  for (const sandbox of runtime.sandboxes.values()) {
    if (sandbox.state !== "ready" || !world.kernel.hasNamespaceOf(sandbox)) continue;
    properties.mustHaveAll(sandbox);
    const links = world.kernel.attachedOf(sandbox.id).filter(({ kind }) => kind === "link");
    const there = links.map(({ ifName, network }) => `${ifName} ${network}`).join();
    if (there !== `eth0 ${scenario.others.second?.defaultNetwork}`)
      properties.violate("as requested", `${sandbox.id} of the second runtime has ${there}`);
  }
  if (!(await inProcess(runtime.process, () => runtime.check()).catch(() => true)))
    properties.violate("never what runs", "a CHECK of the second runtime fails");
}

/** The plugin of a mesh is the last of the node's configuration, and has run once for a pod. */
async function checkMesh(stage: Stage, { mesh, lifeMs }: MeshScenario): Promise<void> {
  const { world, properties, runtime } = stage;
  const { schedule, disk, meshAdds } = world;
  const type = `${mesh}-cni`;
  const violate = (details: string): void => properties.violate("beside others", details);
  const isGone = lifeMs !== undefined;
  const isSettled = (): boolean => (isGone ? stage.isMeshGone : stage.meshAgent !== undefined);
  await schedule.until(isSettled, schedule.nowUs + meshUs);
  const wrong = await lastProblem(stage, () => listsProblem(isGone ? [] : [type]), meshUs);
  if (wrong !== undefined && !(isGone && mayBringBack(stage)))
    violate(`with${isGone ? "out" : ""} its agent: ${wrong}`);
  for (const [id, by] of meshAdds) {
    // The runtime's list may be from before plexusd has seen the agent's plugin in both files.
    if (by.length > (runtime.addedEarly.has(id) ? 2 : 1))
      violate(`${type} ran ${by.length} times for ${id}`);
  }
  // An agent that has started since finds its plugin there, and writes again.
  await schedule.sleep(startUs);
  let writes = 0;
  const watch = (path: string): void => void (path.endsWith(".conflist") && writes++);
  disk.watchers.add(watch);
  await schedule.sleep(meshUs);
  disk.watchers.delete(watch);
  if (writes > 2) violate(`the configuration was written ${writes} times`);
}

/**
 * Whether plexusd may have been stopped just before it replaced its file, and killed just after, before it saw that an
 * agent had removed its plugin meanwhile.
 */
function mayBringBack({ scenario }: Stage): boolean {
  const kinds = new Set(scenario.mischief.map(({ kind }) => kind));
  return kinds.has("stop") && (kinds.has("kill") || kinds.has("power loss"));
}

/** Only these plugins follow Plexus's, and the default network has none that an agent appended. */
function listsProblem(appended: readonly string[]): string | undefined {
  const [first, ...others] = listFiles();
  const types = first === undefined ? [] : typesOf(first);
  const elsewhere = others.flatMap(typesOf).filter((type) => meshTypes.includes(type));
  const isRight =
    types.join() === ["plexus", ...appended].join() && omittedTypes().join() === elsewhere.join();
  return isRight ? undefined : JSON.stringify([first, ...others]);
}

/** Waits until there is no problem, as long as writes and watches may take. */
async function lastProblem(
  { world }: Stage,
  problem: () => string | undefined,
  waitUs = statusUs,
): Promise<string | undefined> {
  const { schedule } = world;
  await schedule.until(() => problem() === undefined, schedule.nowUs + waitUs);
  return problem();
}

function watchProblem({ plexusd, api }: Stage): string | undefined {
  const seen = plexusd?.seenPods.toSorted().join();
  const there = Array.from(api.pods(), ({ metadata }) => metadata.uid)
    .toSorted()
    .join();
  return seen === there ? undefined : `plexusd sees the pods ${seen}, there are ${there}`;
}

/** The sandboxes of pods that are to run. */
function runningSandboxes({ api, runtime, kubelet, world }: Stage): Sandbox[] {
  const wanted = new Set(kubelet.pods);
  return [...runtime.sandboxes.values()].filter(
    (sandbox) =>
      wanted.has(sandbox.pod) &&
      api.podOf(`default/${sandbox.pod.name}`, sandbox.pod.uid) !== undefined &&
      sandbox.state === "ready" &&
      world.kernel.hasNamespaceOf(sandbox),
  );
}

/** What a pod should have, each as `INTERFACE NETWORK`; what it has if an edit may be refused. */
function expected(stage: Stage, sandbox: Sandbox): string[] {
  const { scenario, edited } = stage;
  const requested = requestedBy(stage, sandbox.pod);
  const isUnclear = (name: NetworkName): boolean =>
    isInvalid(name) || (isRefused(name) && isOnceRight(stage, name));
  const mayBeRefused = edited.get(sandbox.pod.uid)?.hasMoved === true;
  if (mayBeRefused || requested.some(isUnclear)) return linksOf(stage, sandbox);
  // One whose plugin fails keeps no other one from the pod.
  const networks = wantedOf(stage, sandbox).filter(
    (each) => !isRefused(each.split(" ")[1] as NetworkName),
  );
  return [`eth0 ${scenario.defaultNetwork}`, ...networks];
}

/** The interfaces that a pod requests, each as `INTERFACE NETWORK`. After edits, any name is right. */
function wantedOf(stage: Stage, sandbox: Sandbox): string[] {
  const { scenario } = stage;
  const named = linksOf(stage, sandbox).filter((each) => /^net\d+ rails$/.test(each));
  return interfacesOf(scenario, requestedBy(stage, sandbox.pod)).map(({ ifName, network }) => {
    const own = scenario.hotPlug && hasFreeNames(network) ? named.shift() : undefined;
    return own ?? `${ifName} ${network}`;
  });
}

/** The interfaces that a sandbox has, each as `INTERFACE NETWORK`. */
function linksOf({ world }: Stage, { id }: Sandbox): string[] {
  const links = world.kernel.attachedOf(id).filter(({ kind }) => kind === "link");
  return links.map(({ ifName, network }) => `${ifName} ${network}`);
}

/** Waits until running pods have the networks of their edited annotations. */
async function checkRequested(stage: Stage): Promise<void> {
  const { properties } = stage;
  const problem = (): string | undefined =>
    runningSandboxes(stage)
      .map((sandbox) => {
        const there = linksOf(stage, sandbox).toSorted();
        const wanted = expected(stage, sandbox).toSorted();
        const lacking = keptBy(stage, sandbox).filter((each) => !there.includes(each));
        return there.join() === wanted.join() && lacking.length === 0
          ? undefined
          : `${sandbox.id} has ${there.join()}, its pod requests ${[...wanted, ...lacking].join()}`;
      })
      .find((each) => each !== undefined);
  const found = await lastProblem(stage, problem, hotPlugUs);
  if (found !== undefined) properties.violate("as requested", found);
}

/** What is wrong with the default routes of running pods. */
function routesProblem(stage: Stage): string | undefined {
  const { world, properties } = stage;
  for (const sandbox of runningSandboxes(stage)) {
    const there = world.kernel.defaultRoutes(sandbox.netns);
    const attached = expected(stage, sandbox).map((each) => {
      const [ifName = "", network] = each.split(" ") as [string, NetworkName];
      return { ifName, network };
    });
    for (const family of [4, 6] as const) {
      const routed = attached.filter(({ network }) => routedFamilies(network).includes(family));
      const owner = routed.find(({ network }) => isGateway(network)) ?? routed[0];
      if (owner === undefined || (owner.ifName !== "eth0" && !isGateway(owner.network))) continue;
      // The plugins of an ADD decide what other networks have, unless one requests all.
      const others = routed.filter(
        (each) => !isGateway(owner.network) && properties.hasAdded(sandbox.id, each),
      );
      const isOf = ({ ifName }: { readonly ifName: string }, route: string): boolean =>
        route.includes(` dev ${ifName} `);
      const ofFamily = there.filter((route) => route.includes(":") === (family === 6));
      const wrong = ofFamily.filter(
        (route) => ![owner, ...others].some((each) => isOf(each, route)),
      );
      const own = ofFamily.filter((route) => isOf(owner, route));
      if (wrong.length > 0 || own.length !== 1)
        return `${sandbox.id} has IPv${family} default routes ${ofFamily.join(", ")}; ${owner.ifName} should`;
    }
  }
  return undefined;
}

/** What running pods lack of the routes to the cluster. */
function clusterProblem(stage: Stage): string | undefined {
  const { world, scenario } = stage;
  const families = scenario.keepsCluster ? routedFamilies(scenario.defaultNetwork) : [];
  for (const sandbox of runningSandboxes(stage)) {
    const kept = world.kernel.keptRoutes(sandbox.netns).map((route) => route.split(" via ")[0]);
    const hasOthers = expected(stage, sandbox).some((each) => !each.startsWith("eth0 "));
    const wanted = families.filter(() => hasOthers).map((family) => clusterRanges[family]);
    // They stay when the last of them has gone.
    const isKnown = hasOthers || !scenario.keepsCluster;
    if (isKnown && kept.toSorted().join() !== wanted.toSorted().join())
      return `${sandbox.id} has routes to the cluster's ${kept.join()}, it should have ${wanted.join()}`;
  }
  return undefined;
}

/** What a refused edit must not remove. */
function keptBy(stage: Stage, { id, pod }: Sandbox): string[] {
  const { kept = [] } = stage.edited.get(pod.uid) ?? {};
  const own = kept.filter(({ containerId }) => containerId === id);
  return own.map(({ ifName, network }) => `${ifName} ${network}`);
}

function checkAttached(stage: Stage, sandbox: Sandbox): void {
  const { world, properties, scenario } = stage;
  const devices = world.kernel.devicesOf(sandbox.id).join();
  // What is attached again gets another name.
  if (!scenario.hotPlug && devices !== devices.split(",").toSorted().join())
    properties.violate("as requested", `${sandbox.id} has the devices ${devices} in this order`);
  const attached = world.kernel.attachedOf(sandbox.id);
  for (const each of expected(stage, sandbox)) {
    const [ifName, network] = each.split(" ");
    const isThere = attached.some(
      (thing) => thing.kind === "link" && thing.ifName === ifName && thing.network === network,
    );
    if (!isThere) properties.violate("never what runs", `${sandbox.id} lacks ${each}`);
  }
  properties.mustHaveAll(sandbox);
}

/** What the kernel and host-local have for an attachment, as its status should show it. */
function shownAs({ kernel }: Stage["world"], { id, netns }: Sandbox, attachment: string): string {
  const [ifName = "", network = ""] = attachment.split(" ");
  const addresses = kernel.leases.of({ network, containerId: id, ifName });
  return `${attachment} ${kernel.link(netns, ifName)?.mac} ${addresses.join("+")}`;
}

function statusProblem(stage: Stage, sandbox: Sandbox): string | undefined {
  const { name } = sandbox.pod;
  // What a DEL left may be there. A refused edit that requests it again keeps it.
  const isRefused = requestedBy(stage, sandbox.pod).some(isInvalid);
  const gone = wantedOf(stage, sandbox).filter((each) => !linksOf(stage, sandbox).includes(each));
  const mayBeGone = (each: string): boolean =>
    isRefused && gone.some((attachment) => each.startsWith(`${attachment} `));
  const all = statusOf(stage, name).map(
    ({ interface: ifName, name, mac, ips }) =>
      `${ifName} ${String(name).split("/").at(-1)} ${mac} ${Array.isArray(ips) ? ips.join("+") : ""}`,
  );
  const shown = all.filter((each) => !mayBeGone(each));
  const wanted = expected(stage, sandbox).map((each) => shownAs(stage.world, sandbox, each));
  // Plugged networks are the last, wherever the annotation has them.
  if (wanted.toSorted().join() === shown.toSorted().join()) return undefined;
  return `pod ${name} has ${wanted.join()}, its status shows ${shown.join()}`;
}

function statusOf({ api }: Stage, pod: string): JsonObject[] {
  return objectsOf(tryParseJson(api.networkStatus(`default/${pod}`) ?? ""));
}

/** What holds when all pods are gone. */
export async function checkEnd(stage: Stage): Promise<void> {
  const { world, properties, scenario, plexusd } = stage;
  const { kernel, disk, schedule } = world;
  for (const { kubelet } of sidesOf(stage))
    if (kubelet.unsettled > 0)
      properties.violate("in the end", `${kubelet.unsettled} pods cannot be deleted`);
  await checkEndpoints(stage);
  const left = kernel.attached().filter((made) => !properties.mayStay(made));
  if (left.length > 0) properties.violate("in the end", `still there: ${JSON.stringify(left)}`);
  await schedule.sleep(2e6);
  const records = recordNames(disk);
  if (records.length > 0) properties.violate("in the end", `still recorded: ${records.join()}`);
  // What is killed leaves a temporary record and plan, and a lock per pod, which are swept later.
  const mayRemain = (2 + scenario.pods.length) * scenario.mischief.length;
  const remaining = await lastProblem(stage, () => {
    const others = stateFiles(disk).filter((name) => !mayStayFile.test(name));
    return others.length > mayRemain ? `files remain: ${others.join()}` : undefined;
  });
  if (remaining !== undefined) properties.violate("bounded", remaining);
  const openFiles = (): number => (plexusd === undefined ? 0 : disk.openCount(plexusd.process));
  // A disk that is busy takes seconds for a sync.
  for (let tries = 0; tries < 20 && openFiles() > 0; tries++) await schedule.sleep(0.3e6);
  const open = openFiles();
  if (open > 0) properties.violate("bounded", `plexusd has ${open} open files`);
  const waiting = await lastProblem(stage, () => {
    const count = stage.plexusd?.pendingStatuses ?? 0;
    return count === 0 ? undefined : `${count} writes of statuses wait`;
  });
  if (waiting !== undefined) properties.violate("bounded", waiting);
  if (scenario.isSwept && sweepable(disk).length > 0) await checkSwept(stage);
}

/**
 * What holds a day later, or after the clock was set back: plexusd has swept its directory. A file
 * that a crash or a full disk left with content is emptied first, and removed when it is old again.
 */
async function checkSwept({ world, properties, plexusd }: Stage): Promise<void> {
  const ageMs = world.random.chance(0.5) ? oldMs : -oldMs;
  for (const _ of ["emptied", "removed"]) {
    world.clockOffsetMs += ageMs;
    plexusd?.runHousekeeping();
    await world.schedule.sleep(sweepUs);
  }
  const left = sweepable(world.disk);
  if (left.length > 0) properties.violate("bounded", `not swept: ${left.join()}`);
}

function sweepable(disk: Disk): string[] {
  return stateFiles(disk).filter((name) => !/^default\.plan$|^primary-conf$|\.damaged$/.test(name));
}

function stateFiles(disk: Disk): string[] {
  return disk.list(defaultPaths.stateDir).map(([name]) => name);
}

/** The names of all records. */
export function recordNames(disk: Disk): string[] {
  return stateFiles(disk).filter((name) => name.endsWith(".record"));
}
