import { expect, onTestFinished, test, vi } from "vitest";
import type { PodState } from "#engine/check/not-attached.ts";
import type { HotPlugOutcome } from "#engine/hotplug/hot-plug.ts";
import { noSandboxHosts } from "#engine/hotplug/sandbox-hosts.ts";
import type { Pod } from "#engine/ports.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { HotPlugQueue } from "./hot-plug.ts";

type Answer = HotPlugOutcome | HotPlugOutcome["state"] | Error;

const runningPod: Omit<PodState, keyof Pod> = {
  ...{ hostNetwork: false, phase: "Running", isTerminating: false },
  ...{ podIps: [], networkStatus: undefined },
};

/** A queue whose engine answers what a test says, `settled` at last. Timers are faked. */
function makeQueue() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const pods = new Map<string, Pod>();
  const state = { isOn: true };
  const live: { annotation?: string } = {};
  const seen: string[] = [];
  const answers: Answer[] = [];
  const measured: string[] = [];
  const gates: Promise<void>[] = [];
  const queue = new HotPlugQueue({
    engine: {
      countOutdated: async () => 3,
      hotPlug: async (pod, { isEdit, refreshed }) => {
        const why = refreshed === undefined ? "" : ` refreshed ${refreshed}`;
        const text = `${pod.name} ${pod.annotations[networksAnnotation]}`;
        seen.push(`${text}${isEdit ? " edited" : ""}${why}`);
        const answer = answers.shift() ?? "settled";
        await gates.shift();
        if (answer instanceof Error) throw answer;
        return typeof answer === "string" ? { state: answer, operations: [] } : answer;
      },
    },
    hosts: noSandboxHosts,
    nodePods: {
      list: () => [...pods.values()],
      read: async (pod) => {
        if (live.annotation === undefined) return undefined;
        return { ...runningPod, ...pod, annotations: { [networksAnnotation]: live.annotation } };
      },
    },
    conf: async () => ({}),
    guard: { note: () => undefined },
    isOn: () => state.isOn,
    metrics: {
      operationEnded: ({ op, result }) => void measured.push(`${op} ${result}`),
      statusWritten: (milliseconds) => void measured.push(`${milliseconds} ms`),
    },
    logger: new FakeLogger(),
    clock: () => Date.now(),
  });
  const deliver = async (name: string, annotation: string, uid = `uid-${name}`): Promise<void> => {
    const annotations = { [networksAnnotation]: annotation };
    const pod = { namespace: "default", name, uid, annotations, isStatic: false };
    pods.set(name, pod);
    queue.podChanged(`default/${name}`, pod);
    await settle();
  };
  const settle = () => vi.advanceTimersByTimeAsync(0);
  return { queue, pods, state, live, seen, answers, measured, gates, deliver, settle };
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
] as const)(
  "an attempt that ends $state is repeated with backoff, without end [H-32]",
  async (scene) => {
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
  },
);

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

test("a definition or an agent that appears ends the backoff [H-32]", async () => {
  const { deliver, seen, answers, queue, settle } = makeQueue();
  answers.push("failed");
  await deliver("web", "a");
  await deliver("other", "a");
  queue.retryAll();
  await settle();
  expect(seen).toEqual(["web a", "other a", "web a"]);
});

test("a pod does not wait for another one", async () => {
  const { deliver, seen, gates } = makeQueue();
  gates.push(new Promise(() => undefined));
  await deliver("slow", "a");
  await deliver("web", "a");
  expect(seen).toEqual(["slow a", "web a"]);
});

test("a pod that is gone or was replaced is forgotten", async () => {
  const { deliver, seen, answers, queue } = makeQueue();
  answers.push("failed", "failed");
  await deliver("gone", "a");
  await deliver("web", "a");
  queue.podChanged("default/gone", undefined);
  await deliver("web", "a", "another-uid");
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(seen).toEqual(["gone a", "web a", "web a"]);
  expect(queue.pending).toBe(0);
});

test("without hot-plug nothing is compared, until it is switched on [H-38] [H-39]", async () => {
  const { deliver, seen, state, queue, pods, settle } = makeQueue();
  state.isOn = false;
  await deliver("web", "a");
  pods.set("other", { ...pods.get("web")!, name: "other", uid: "uid-other" });
  await queue.compareAll();
  expect([seen, queue.pending]).toEqual([[], 0]);
  state.isOn = true;
  await queue.compareAll();
  await settle();
  expect(seen).toEqual(["web a", "other a"]);
});

test("refresh() plugs an interface anew, and compares the pod after it", async () => {
  const { queue, deliver, seen, answers, measured, settle } = makeQueue();
  await deliver("web", "a");
  const added = { op: "add", result: "success", network: "default/a", ifName: "net1" } as const;
  const operations = [{ ...added, published: Promise.resolve() }];
  answers.push({ state: "settled", operations });
  const pod = { namespace: "default", name: "web" };
  expect(await queue.refresh(pod, "net1")).toEqual({ state: "settled", operations });
  await settle();
  expect(seen).toEqual(["web a", "web a refreshed net1", "web a"]);
  expect(measured).toEqual(["add success"]);
  await expect(queue.refresh({ ...pod, name: "other" }, "net1")).rejects.toThrow("no such pod");
});

test("settle() compares the live pod, although the watch has not delivered it, and waits for the sandbox", async () => {
  const { queue, deliver, seen, answers, measured, live } = makeQueue();
  await deliver("web", "a");
  live.annotation = "a,b";
  const operations = [
    {
      ...({ op: "add", result: "success", network: "default/b", ifName: "net2" } as const),
      published: Promise.resolve(),
    },
  ];
  answers.push("busy", { state: "settled", operations });
  const settled = queue.settle({ namespace: "default", name: "web" });
  await vi.advanceTimersByTimeAsync(100);
  expect(await settled).toEqual({ state: "settled", operations });
  expect(seen).toEqual(["web a", "web a,b edited", "web a,b edited", "web a"]);
  expect(measured).toEqual(["add success"]);
});

test("settle() gives up a sandbox that stays busy after a minute", async () => {
  const { queue, deliver, answers } = makeQueue();
  await deliver("web", "a");
  answers.push(...Array(2000).fill("busy"));
  const settled = queue.settle({ namespace: "default", name: "web" });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await settled).toMatchObject({ state: "busy" });
  await queue.stop();
});

test("settle() refuses an unknown pod, and everything while hot-plug is off [H-38]", async () => {
  const { queue, deliver, state } = makeQueue();
  await deliver("web", "a");
  await expect(queue.settle({ namespace: "default", name: "other" })).rejects.toThrow(
    "no such pod",
  );
  state.isOn = false;
  await expect(queue.settle({ namespace: "default", name: "web" })).rejects.toThrow("hotPlug");
});

test("countOutdated() counts without hot-plug, too", async () => {
  const { queue, state } = makeQueue();
  state.isOn = false;
  await queue.countOutdated();
  expect(queue.outdated).toBe(3);
});

test("stop() waits for attempts that run, and starts no more", async () => {
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

test("operations are counted, and timed from the delivery to the written status [H-36]", async () => {
  const { deliver, answers, measured } = makeQueue();
  const net1 = { network: "default/a", ifName: "net1" };
  const published = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  await deliver("web", "a");
  const added = { op: "add", result: "success", ...net1, published: published(120) } as const;
  const failed = { op: "remove", result: "error", ...net1, published: Promise.resolve() } as const;
  answers.push({ state: "failed", operations: [added, failed] });
  await deliver("web", "b");
  await vi.advanceTimersByTimeAsync(200);
  expect(measured).toEqual(["add success", "remove error", "120 ms"]);
});
