import { expect, onTestFinished, test, vi } from "vitest";
import { asCniError } from "#cni/error.ts";
import type { HotPlugOutcome } from "#engine/hotplug/reports/outcome.ts";
import type { Pod, PodState } from "#engine/ports/cluster.ts";
import type { SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { AgentTasks } from "./agent-tasks.ts";
import { HotPlugQueue } from "./hot-plug.ts";

type Answer = HotPlugOutcome | HotPlugOutcome["state"] | Error;

const sandbox = { containerId: "c1", ifName: "eth0", netns: "/run/netns/c1" };
const added = { op: "add", result: "success", network: "default/a", ifName: "net1" } as const;

/** An attempt that plugged a network. */
const plugged: HotPlugOutcome = {
  state: "settled",
  operations: [{ ...added, published: Promise.resolve(true) }],
};

const runningPod: Omit<PodState, keyof Pod> = {
  ...{ hostNetwork: false, phase: "Running", isTerminating: false },
  ...{ podIps: [], networkStatus: undefined },
};

const nothing = async (): Promise<never> => new Promise(() => undefined);

/** An agent whose plugins hang. */
function fakeHosts(agent: { isAvailable: boolean }): SandboxHosts {
  const gone = new AbortController().signal;
  return {
    isAvailable: () => agent.isAvailable,
    onAvailable: () => undefined,
    open: async () => ({
      ...{ links: new Set<string>(), path: [], [Symbol.asyncDispose]: async () => undefined },
      host: { gone, exec: nothing, find: nothing, netlink: nothing, occupants: nothing },
    }),
  };
}

/** A queue whose engine answers what a test says, `settled` at last. Timers are faked. */
function makeQueue() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const pods = new Map<string, Pod>();
  const state = { isAvailable: true };
  const hangs = new Set<string>();
  const live: { annotation?: string } = {};
  const seen: string[] = [];
  const answers: Answer[] = [];
  const measured: string[] = [];
  const changed: string[] = [];
  const gates: Promise<void>[] = [];
  const queue = new HotPlugQueue({
    engine: {
      countOutdated: async () => 3,
      hotPlug: async (pod, { isEdit, refreshed, hosts }) => {
        const why = refreshed === undefined ? "" : ` refreshed ${refreshed}`;
        const text = `${pod.name} ${pod.annotations[networksAnnotation]}`;
        seen.push(`${text}${isEdit ? " edited" : ""}${why}`);
        const answer = answers.shift() ?? "settled";
        await gates.shift();
        if (hangs.has(pod.annotations[networksAnnotation] ?? "")) {
          await using session = await hosts.open(sandbox);
          seen.push(`${pod.name} has a session`);
          await session.host.netlink("", new Uint8Array());
        }
        if (answer instanceof Error) throw answer;
        return typeof answer === "string" ? { state: answer, operations: [] } : answer;
      },
    },
    tasks: new AgentTasks(fakeHosts(state)),
    nodePods: {
      list: () => [...pods.values()],
      read: async (pod) => {
        if (live.annotation === undefined) return undefined;
        return { ...runningPod, ...pod, annotations: { [networksAnnotation]: live.annotation } };
      },
    },
    conf: async () => ({}),
    changed: ({ name }) => void changed.push(name),
    metrics: {
      operationEnded: ({ op, result }) => void measured.push(`${op} ${result}`),
      statusWritten: (milliseconds) => void measured.push(`${milliseconds} ms`),
    },
    logger: new FakeLogger(),
  });
  const deliver = async (
    name: string,
    annotation: string,
    { uid = `uid-${name}`, namespace = "default" } = {},
  ): Promise<void> => {
    const annotations = { [networksAnnotation]: annotation };
    const pod = { namespace, name, uid, annotations };
    pods.set(name, pod);
    queue.podChanged(`${namespace}/${name}`, pod);
    await settle();
  };
  const settle = () => vi.advanceTimersByTimeAsync(0);
  return {
    queue,
    pods,
    state,
    live,
    seen,
    answers,
    measured,
    changed,
    gates,
    hangs,
    deliver,
    settle,
  };
}

test("a pod is compared when it is first seen and when its annotation is edited, not otherwise [H-1] [H-40]", async () => {
  const { deliver, seen } = makeQueue();
  await deliver("web", "a");
  await deliver("web", "a");
  await deliver("web", "a,b");
  await deliver("web", "a,b");
  expect(seen).toEqual(["web a", "web a,b edited"]);
});

test("a pod that waits for a change of it is compared at each change", async () => {
  const { deliver, seen, answers } = makeQueue();
  answers.push("waiting", "waiting");
  for (let i = 0; i < 4; i++) await deliver("web", "a");
  expect(seen).toEqual(["web a", "web a", "web a"]);
});

test("a change of the pod during an attempt counts if it then waits for one [H-32] [H-33]", async () => {
  const { deliver, seen, answers, gates, settle } = makeQueue();
  answers.push("waiting");
  const { promise, resolve } = Promise.withResolvers<void>();
  void gates.push(promise);
  await deliver("web", "a");
  await deliver("web", "a");
  resolve();
  await settle();
  expect(seen).toEqual(["web a", "web a"]);
});

test.each([
  { state: "failed", atMost: [1000, 2000, 4000, 8000, 16_000] },
  { state: "busy", atMost: [100, 200, 400, 800, 1600] },
] as const)("an attempt that ends $state is repeated with backoff [H-32]", async (scene) => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  onTestFinished(() => void vi.restoreAllMocks());
  const { deliver, seen, answers, queue } = makeQueue();
  answers.push(...scene.atMost.map(() => scene.state));
  await deliver("web", "a");
  for (const [i, ms] of scene.atMost.entries()) {
    expect([seen.length, queue.pending]).toEqual([i + 1, 1]);
    await vi.advanceTimersByTimeAsync(ms - 1);
    expect(seen).toHaveLength(i + 1);
    await vi.advanceTimersByTimeAsync(1);
  }
  expect([seen.length, queue.pending]).toEqual([scene.atMost.length + 1, 0]);
});

test("the backoff ends at five minutes, and an edit begins again at once [H-32]", async () => {
  const { deliver, seen, answers } = makeQueue();
  answers.push(...Array(40).fill(new Error("no answer")));
  await deliver("web", "a");
  await vi.advanceTimersByTimeAsync(3_600_000);
  const before = seen.length;
  await vi.advanceTimersByTimeAsync(300_000);
  expect(seen.length).toBeGreaterThan(before);
  answers.length = 0;
  await deliver("web", "b");
  expect(seen.at(-1)).toBe("web b edited");
});

test("an edit during an attempt is compared after it, and only once [H-33]", async () => {
  const { deliver, seen, gates, queue, settle } = makeQueue();
  const { promise, resolve } = Promise.withResolvers<void>();
  void gates.push(promise);
  await deliver("web", "a");
  await deliver("web", "b");
  await deliver("web", "c");
  expect([seen, queue.pending]).toEqual([["web a"], 1]);
  resolve();
  await settle();
  expect([seen, queue.pending]).toEqual([["web a", "web c edited"], 0]);
});

test("an edit is carried out at once, and those of the next 200 ms together", async () => {
  const { deliver, seen, queue } = makeQueue();
  await deliver("web", "a");
  for (const annotation of ["b", "c", "d", "e"]) {
    await deliver("web", annotation);
    await vi.advanceTimersByTimeAsync(45);
  }
  expect([seen, queue.pending]).toEqual([["web a", "web b edited"], 1]);
  await vi.advanceTimersByTimeAsync(20);
  expect([seen, queue.pending]).toEqual([["web a", "web b edited", "web e edited"], 0]);
});

test.each([
  ["succeeds", plugged],
  ["fails", "failed"],
] as const)("an annotation that flips does not run plugins on and on: %s", async (_, outcome) => {
  const { deliver, seen, answers, queue } = makeQueue();
  answers.push(...Array(1000).fill(outcome));
  for (let i = 0; i < 600; i++) {
    await deliver("web", i % 2 === 0 ? "a" : "b");
    await vi.advanceTimersByTimeAsync(100);
  }
  // Ten at once, and then one every five seconds.
  expect(seen.length).toBeGreaterThan(15);
  expect(seen.length).toBeLessThanOrEqual(10 + 12);
  answers.length = 0;
  await vi.advanceTimersByTimeAsync(10_000);
  expect([seen.at(-1), queue.pending]).toEqual(["web b edited", 0]);
});

test("definitions that the annotation does not name leave the backoff as it is [H-32]", async () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  onTestFinished(() => void vi.restoreAllMocks());
  const { deliver, seen, answers, queue, settle } = makeQueue();
  answers.push(...Array(100).fill("failed"));
  await deliver("web", "a,b");
  for (let ms = 0; ms < 60_000; ms += 50) {
    queue.definitionChanged("default/other");
    await vi.advanceTimersByTimeAsync(50);
  }
  // After 1, 2, 4, 8, 16 and 32 seconds.
  expect(seen).toHaveLength(6);
  answers.length = 0;
  queue.definitionChanged("default/b");
  await settle();
  expect([seen.length, queue.pending]).toEqual([7, 0]);
});

test("a definition that the annotation names ends the backoff, every ten seconds at most [H-32]", async () => {
  const { deliver, seen, answers, queue } = makeQueue();
  answers.push(...Array(1000).fill("failed"));
  await deliver("web", "a");
  await deliver("other", "b");
  await vi.advanceTimersByTimeAsync(1_200_000);
  const before = seen.length;
  for (let ms = 0; ms < 100_000; ms += 50) {
    queue.definitionChanged("default/a");
    await vi.advanceTimersByTimeAsync(50);
  }
  const web = seen.slice(before).filter((each) => each === "web a");
  expect(web.length).toBeGreaterThanOrEqual(10);
  expect(web.length).toBeLessThanOrEqual(12);
});

test("attempts for a definition do not count as failures of the backoff", async () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  onTestFinished(() => void vi.restoreAllMocks());
  const { deliver, seen, answers, queue } = makeQueue();
  answers.push(...Array(100).fill("failed"));
  await deliver("web", "a");
  await vi.advanceTimersByTimeAsync(1000 + 2000 + 4000);
  expect(seen).toHaveLength(4);
  await vi.advanceTimersByTimeAsync(100);
  queue.definitionChanged("default/a");
  await vi.advanceTimersByTimeAsync(7899);
  expect(seen).toHaveLength(5);
  await vi.advanceTimersByTimeAsync(1);
  expect(seen).toHaveLength(6);
  await vi.advanceTimersByTimeAsync(15_999);
  expect(seen).toHaveLength(6);
});

test("a definition that changes during an attempt is used after it, without backoff", async () => {
  const { deliver, seen, answers, gates, queue, settle } = makeQueue();
  const { promise, resolve } = Promise.withResolvers<void>();
  void gates.push(promise);
  answers.push("failed");
  await deliver("web", "a");
  queue.definitionChanged("default/a");
  resolve();
  await settle();
  expect([seen, queue.pending]).toEqual([["web a", "web a"], 0]);
});

test("an agent that connects ends the backoff of pods that lacked one, and of no others", async () => {
  const { deliver, seen, answers, queue, state, settle } = makeQueue();
  answers.push("failed");
  await deliver("other", "a");
  state.isAvailable = false;
  answers.push("failed", "busy");
  await deliver("web", "a");
  await deliver("waits", "a");
  queue.agentConnected();
  await settle();
  expect(seen).toEqual(["other a", "web a", "waits a", "web a", "waits a"]);
});

test("a lost interface is attached again at once, although the pod is backing off [H-39]", async () => {
  const { deliver, seen, answers, queue, settle } = makeQueue();
  answers.push(...Array(8).fill("failed"));
  await deliver("web", "a");
  await vi.advanceTimersByTimeAsync(100_000);
  const before = seen.length;
  queue.heal({ uid: "uid-web" });
  await settle();
  expect(seen).toHaveLength(before + 1);
  queue.heal({ uid: "uid-unknown" });
});

test("33 pods of a network that hangs stop no pods of other networks and namespaces", async () => {
  const { deliver, seen, hangs } = makeQueue();
  hangs.add("hangs").add("works").add("hangs,works");
  for (const networks of ["hangs", "hangs,works"]) {
    for (let i = 0; i < 33; i++) await deliver(`${networks}-${i}`, networks);
  }
  const sessions = (): number => seen.filter((each) => each.endsWith("session")).length;
  expect(sessions()).toBeLessThanOrEqual(20);
  await deliver("same", "works", { namespace: "shop" });
  expect(seen.at(-1)).toBe("same has a session");
  await deliver("settled", "a");
  expect(seen.at(-1)).toBe("settled a");
});

test("pods of one network leave the others of their namespace their share", async () => {
  const { deliver, seen, hangs } = makeQueue();
  hangs.add("hangs").add("works");
  for (let i = 0; i < 33; i++) await deliver(`stuck-${i}`, "hangs");
  await deliver("web", "works");
  expect(seen.at(-1)).toBe("web has a session");
});

test("a pod that is gone or was replaced is forgotten", async () => {
  const { deliver, seen, answers, queue } = makeQueue();
  answers.push("failed", "failed");
  await deliver("gone", "a");
  await deliver("web", "a");
  queue.podChanged("default/gone", undefined);
  await deliver("web", "a", { uid: "another-uid" });
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(seen).toEqual(["gone a", "web a", "web a"]);
  expect(queue.pending).toBe(0);
});

test("compareAll() compares every pod, also one that the watch has not delivered [H-39]", async () => {
  const { deliver, seen, queue, pods, settle } = makeQueue();
  await deliver("web", "a");
  pods.set("other", { ...pods.get("web")!, name: "other", uid: "uid-other" });
  await queue.compareAll();
  await settle();
  expect(seen).toEqual(["web a", "web a", "other a"]);
});

test("refresh() plugs an interface anew, and an attempt for the whole annotation follows at once", async () => {
  const { queue, deliver, seen, answers, measured, settle } = makeQueue();
  await deliver("web", "a");
  const pod = { namespace: "default", name: "web" };
  const outcome = { ...plugged, state: "failed" } as const;
  answers.push(outcome);
  expect(await queue.refresh(pod, "net1")).toEqual(outcome);
  await settle();
  expect(seen).toEqual(["web a", "web a refreshed net1", "web a"]);
  expect(measured).toEqual(["add success"]);
  await expect(queue.refresh({ ...pod, name: "other" }, "net1")).rejects.toThrow("no such pod");
});

test("refresh() does not run beside another attempt for the pod", async () => {
  const { queue, deliver, seen, gates } = makeQueue();
  gates.push(new Promise(() => undefined));
  await deliver("web", "a");
  const pod = { namespace: "default", name: "web" };
  expect(await queue.refresh(pod, "net1")).toMatchObject({ state: "busy" });
  expect(seen).toEqual(["web a"]);
});

test("refresh() keeps to the limit of the pod's attempts", async () => {
  const { queue, deliver, seen, answers } = makeQueue();
  await deliver("web", "a");
  answers.push(...Array(1000).fill(plugged));
  const name = { namespace: "default", name: "web" };
  const ask = async (): Promise<void> => {
    // An attempt for the whole annotation follows each.
    for (let i = 0; i < 20; ) if ((await queue.refresh(name, "net1")).state !== "busy") i++;
  };
  const asked = expect(ask()).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(4999);
  expect(seen).toHaveLength(1 + 10);
  await queue.stop();
  await asked;
});

test("countOutdated() notes how many there are", async () => {
  const { queue } = makeQueue();
  await queue.countOutdated();
  expect(queue.outdated).toBe(3);
});

test("stop() waits a moment for attempts that run, and starts no more", async () => {
  const { deliver, seen, gates, queue } = makeQueue();
  const { promise, resolve } = Promise.withResolvers<void>();
  void gates.push(promise);
  await deliver("web", "a");
  let hasEnded = false;
  const stopped = queue.stop().then(() => {
    hasEnded = true;
  });
  await deliver("web", "b");
  expect([seen, hasEnded]).toEqual([["web a"], false]);
  resolve();
  await stopped;
  await deliver("web", "c");
  expect(seen).toEqual(["web a"]);
});

test("stop() leaves plugins that hang to the agent, within the pod's grace period", async () => {
  const { deliver, seen, hangs, queue } = makeQueue();
  hangs.add("hangs");
  for (let i = 0; i < 33; i++) await deliver(`web-${i}`, "hangs");
  let endedAt = Number.POSITIVE_INFINITY;
  const startedAt = Date.now();
  void queue.stop().then(() => {
    endedAt = Date.now();
  });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(endedAt - startedAt).toBeLessThanOrEqual(5000);
  const before = seen.length;
  await vi.advanceTimersByTimeAsync(600_000);
  expect(seen).toHaveLength(before);
});

test("operations are counted, and timed from the delivery to the written status [H-36]", async () => {
  const { deliver, answers, measured, changed } = makeQueue();
  const net1 = { network: "default/a", ifName: "net1" };
  const published = (ms: number) =>
    new Promise<boolean>((resolve) => setTimeout(() => resolve(true), ms));
  await deliver("web", "a");
  const slow = { ...added, published: published(120) };
  const failed = {
    op: "remove",
    result: "error",
    ...net1,
    published: Promise.resolve(true),
  } as const;
  answers.push({ state: "failed", operations: [slow, failed] });
  await deliver("web", "b");
  await vi.advanceTimersByTimeAsync(200);
  expect(measured).toEqual(["add success", "remove error", "120 ms"]);
  expect(changed).toEqual(["web"]);
});

test("lastAttempt() says how the last attempt ended and when the next one is due; problems() names the pods", async () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  onTestFinished(() => void vi.restoreAllMocks());
  const { deliver, answers, queue } = makeQueue();
  const web = { namespace: "default", name: "web" };
  const [noVlan, busy] = [new Error("no such VLAN"), new Error("busy")].map(asCniError);
  const remove = { op: "remove", result: "error", network: "default/b", ifName: "net2" } as const;
  answers.push({
    state: "failed",
    operations: [{ ...remove, error: busy!, published: Promise.resolve(true) }],
    problems: [{ error: noVlan!, network: "default/a", ifName: "net1" }],
  });
  expect(queue.lastAttempt(web)).toBeUndefined();
  await deliver("web", "a");
  expect(queue.lastAttempt(web)).toMatchObject({
    ...{ state: "failed", nextMs: 1000, at: new Date().toISOString() },
    problems: [{ network: "default/a" }, { network: "default/b", isRemoval: true }],
  });
  await vi.advanceTimersByTimeAsync(1000);
  expect(queue.lastAttempt(web)).toEqual({
    ...{ state: "settled", problems: [] },
    at: expect.any(String),
  });
});
