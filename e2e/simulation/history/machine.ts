import { Endpoints } from "../node/endpoints.ts";
import { MeshAgent, omittedTypes } from "../node/mesh-agent.ts";
import { Plexusd } from "../node/plexusd.ts";
import { startAgent } from "../node/shim/agent.ts";
import type { Boot } from "../world/ground.ts";
import { Kernel, randomUuid } from "../world/kernel.ts";
import type { Process } from "../world/schedule.ts";
import type { MeshScenario } from "./others.ts";
import { type Stage, sidesOf } from "./stage.ts";

/** Starts all that the history has besides the runtime and the kubelet. */
export function startMachine(stage: Stage): void {
  startPlexusd(stage);
  if (stage.scenario.hasAgent) keep(stage, () => startAgent(stage.scenario.hotPlug));
  if (stage.scenario.service !== undefined)
    for (const replica of ["a", "b"]) keep(stage, () => startEndpoints(stage, replica));
  if (stage.scenario.others.mesh !== undefined) keepMeshAgent(stage, stage.scenario.others.mesh);
}

function keep(stage: Stage, start: () => Process): void {
  const { schedule, random } = stage.world;
  start().onEnd(() => {
    const again = (): void => {
      if (stage.isOn) keep(stage, start);
    };
    // The machine's start starts it after a power loss.
    if (stage.isOn) schedule.at(random.duration(1e6, 10e6), again, schedule.outside);
  });
}

function startEndpoints({ world, endpoints }: Stage, replica: string): Process {
  // A container that is started again has the name of its pod, which the next pod has not.
  const started = new Endpoints(`${replica}-${world.random.integer(1, 2)}`);
  endpoints.add(started);
  started.process.onEnd(() => endpoints.delete(started));
  return started.process;
}

/** Ends all replicas by SIGTERM. */
export function stopEndpoints({ endpoints }: Stage): void {
  for (const each of endpoints) each.stop();
}

/** Starts it from its time on, until its time is over and it has ended cleanly. */
function keepMeshAgent(stage: Stage, scenario: MeshScenario): void {
  const { mesh, wasFirst, startMs, lifeMs = Infinity } = scenario;
  const { schedule } = stage.world;
  const { outside } = schedule;
  const start = (): void => {
    if (!stage.isOn || stage.meshAgent !== undefined || stage.isMeshGone) return;
    const agent = new MeshAgent(mesh);
    stage.meshAgent = agent;
    agent.process.onEnd(() => {
      stage.meshAgent = undefined;
      stage.isMeshGone = agent.isGone;
      schedule.at(1e6, start, outside);
    });
    const stop = (): void => {
      // Istio's leaves its plugin in the primary CNI's file, which Plexus has to leave out first.
      const isEarly = wasFirst && mesh === "istio" && !omittedTypes().includes("istio-cni");
      if (isEarly) schedule.at(1e6, stop, agent.process);
      else agent.stop();
    };
    const leftUs = Math.max(0, 1000 * (startMs + lifeMs) - schedule.nowUs);
    if (lifeMs < Infinity) schedule.at(leftUs, stop, agent.process);
  };
  schedule.at(Math.max(0, 1000 * startMs - schedule.nowUs), start, outside);
}

/** Starts plexusd, again and again, as the kubelet does. */
export function startPlexusd(stage: Stage): void {
  if (!stage.isOn || stage.isAway || stage.plexusd !== undefined) return;
  const { schedule, random } = stage.world;
  const plexusd = new Plexusd(stage.scenario, () => {
    stage.properties.disturb(120e6);
    if (stage.plexusd !== plexusd) return;
    stage.plexusd = undefined;
    schedule.at(random.duration(100_000, 40e6), () => startPlexusd(stage), schedule.outside);
  });
  stage.plexusd = plexusd;
}

/** Starts the next plexusd while the present one ends. */
export function upgradePlexusd(stage: Stage): void {
  stage.plexusd?.stop();
  stage.plexusd = undefined;
  startPlexusd(stage);
}

/** Ends all processes; the machine starts again later. */
export function losePower(stage: Stage): void {
  if (!stage.isOn) return;
  const { world, properties } = stage;
  const { schedule, random } = world;
  world.note(() => "power is lost");
  stage.isOn = false;
  properties.disturb(120e6);
  properties.powerLost(world.disk.unsynced);
  const lostAtUs = schedule.nowUs;
  const boot = (): void => {
    const next = nextBoot(stage);
    world.disk.restart(lostAtUs, { keepsAll: next === world.kernel });
    world.kernel = new Kernel(random, world.disk, next);
    world.note(() => "the machine starts");
    properties.machineStarted();
    stage.isOn = true;
    for (const { runtime, kubelet } of sidesOf(stage)) {
      runtime.restart();
      kubelet.restart();
    }
    properties.disturb(60e6);
    schedule.at(random.duration(1e6, 30e6), () => startMachine(stage), schedule.outside);
  };
  schedule.at(random.duration(5e6, 20e6), boot, schedule.outside);
  schedule.killAll();
}

/** Where the node is a container, its start is not always one of the machine, which then loses nothing. */
function nextBoot({ world, scenario }: Stage): Boot {
  const { kernel, random, schedule } = world;
  const clockFromUs = schedule.nowUs;
  if (!scenario.others.hasTwoBootIds) return { clockFromUs };
  return random.chance(0.5) ? { clockFromUs, containerBootId: randomUuid(random) } : kernel;
}
