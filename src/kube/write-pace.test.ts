import { beforeEach, expect, test, vi } from "vitest";
import { ApiError } from "./api/api-error.ts";
import { WritePace } from "./write-pace.ts";

const { signal } = new AbortController();
const turn = (): Promise<void> => new Promise(setImmediate);
const answer = (status: number) =>
  new ApiError("PATCH /", { status, reason: status === 404 ? "NotFound" : "" });

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
  return () => vi.useRealTimers();
});

/** Writes on their way, by namespace; each ends when the test says so. */
class Writes {
  readonly pace = new WritePace();
  readonly sent: { namespace: string; end: PromiseWithResolvers<void> }[] = [];

  async send(namespace: string, count = 1, isAwaited = false): Promise<void> {
    for (let i = 0; i < count; i++) {
      const end = Promise.withResolvers<void>();
      const send = (): Promise<void> => {
        this.sent.push({ namespace, end });
        return end.promise;
      };
      this.pace.run(namespace, send, { signal, isAwaited }).catch(() => undefined);
    }
    await turn();
  }

  /** Ends all that are on their way, after `ms`. */
  async end(ms: number, status?: number): Promise<void> {
    vi.advanceTimersByTime(ms);
    for (const { end } of this.sent.splice(0)) {
      if (status === undefined) end.resolve();
      else end.reject(answer(status));
    }
    await turn();
  }

  /** How many of many are sent at once. */
  async atOnce(): Promise<number> {
    await this.send("probe", 40);
    return this.sent.length;
  }
}

async function grown(): Promise<Writes> {
  const writes = new Writes();
  await writes.send("a", 400);
  while (writes.sent.length > 0) await writes.end(10);
  return writes;
}

test("at first, one write of a namespace is on its way, and one of another", async () => {
  const writes = new Writes();
  await writes.send("a", 5);
  await writes.send("b", 5);
  await writes.send("c");
  expect(writes.sent.map(({ namespace }) => namespace)).toEqual(["a", "b"]);
});

test("while answers are fast there are more, up to a quarter of the connections", async () => {
  const writes = await grown();
  expect(await writes.atOnce()).toBe(4);
  await writes.send("b", 40);
  await writes.send("c", 40);
  await writes.send("d", 40);
  await writes.send("e", 40);
  await writes.send("f", 40);
  expect(writes.sent).toHaveLength(8);
});

test("slow answers do not make them more", async () => {
  const writes = new Writes();
  await writes.send("a", 20);
  for (let i = 0; i < 20; i++) await writes.end(600);
  expect(await writes.atOnce()).toBe(1);
});

test.for<[what: string, status: number | undefined, count: number, ms?: number]>([
  ["an answer that waited long in the server's queue", undefined, 2, 5001],
  ["too many requests", 429, 2],
  ["a time limit of the server or a proxy", 504, 2],
  ["no answer", 0, 2],
  ["a pod that is gone", 404, 4],
  ["a rejected value", 422, 4],
])("after %s, %i, there are %i", async ([, status, count, ms = 1000]) => {
  const writes = await grown();
  await writes.send("a", 4);
  expect(writes.sent).toHaveLength(4);
  await writes.end(ms, status);
  expect(await writes.atOnce()).toBe(count);
});

test("after a pause there are few again", async () => {
  const writes = await grown();
  vi.advanceTimersByTime(10_001);
  expect(await writes.atOnce()).toBe(1);
});

test("30 ADDs of one namespace, with answers after 600 ms, wait less than ten seconds each", async () => {
  const writes = new Writes();
  await writes.send("background", 30);
  await writes.send("a", 30, true);
  let ms = 0;
  for (; writes.sent.some(({ namespace }) => namespace === "a"); ms += 600) await writes.end(600);
  expect(ms).toBeGreaterThan(600);
  expect(ms).toBeLessThan(10_000);
});
