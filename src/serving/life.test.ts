import { expect, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { Life } from "./life.ts";

/** A life whose parts note when they start and stop. */
function makeLife() {
  const logger = new FakeLogger();
  const life = new Life(logger);
  const journal: string[] = [];
  const start = (name: string, stop: () => unknown = () => undefined): Promise<string> =>
    life.start({
      name,
      start: () => {
        journal.push(`start ${name}`);
        return name;
      },
      stop: (started) => {
        journal.push(`stop ${started}, ${life.state}`);
        return stop();
      },
    });
  return { logger, life, journal, start };
}

const fail = (): never => {
  throw new Error("broken");
};

test("the parts stop in the reverse order of their start", async () => {
  const { life, journal, start } = makeLife();
  await life.run(async () => {
    await start("a");
    expect(life.state).toBe("starting");
    life.serve();
    await start("b");
  });
  expect(life.state).toBe("serving");
  await life.stop();
  expect(life.state).toBe("stopped");
  expect(journal).toEqual(["start a", "start b", "stop b, draining", "stop a, draining"]);
});

test("stop() ends at once while the process is starting, and the state stays", async () => {
  const { life, journal, start } = makeLife();
  const started = life.run(async () => {
    await start("a");
    life.serve();
  });
  await life.stop();
  await started;
  expect(life.state).toBe("stopped");
  expect(journal).toEqual(["start a"]);
});

test("stop() waits for the rest of the start when calls can be in flight", async () => {
  const { life, journal, start } = makeLife();
  const opened = Promise.withResolvers<void>();
  const started = life.run(async () => {
    life.serve();
    await start("a");
    await opened.promise;
    await start("b");
  });
  const stopped = life.stop();
  expect(life.state).toBe("draining");
  opened.resolve();
  await Promise.all([started, stopped]);
  expect(journal).toEqual(["start a", "start b", "stop b, draining", "stop a, draining"]);
});

test("a part that cannot start stops those before it, and stop() throws its error, too", async () => {
  const { logger, life, journal, start } = makeLife();
  const started = life.run(async () => {
    life.serve();
    await start("a", fail);
    await life.start({ name: "b", start: fail, stop: fail });
  });
  const ended = await Promise.allSettled([started, life.stop()]);
  expect(ended.map((each) => each.status)).toEqual(["rejected", "rejected"]);
  expect(journal).toEqual(["start a", "stop a, draining"]);
  expect(logger.lines.map(({ level, fields }) => `${level} ${fields.part} ${fields.step}`)).toEqual(
    ["debug b start", "debug a stop"],
  );
});

test("a part that cannot stop keeps no other from it, and a slow one is logged", async () => {
  vi.useFakeTimers();
  const { logger, life, journal, start } = makeLife();
  await life.run(async () => {
    await start("a", () => new Promise((resolve) => setTimeout(resolve, 2000)));
    await start("b", fail);
    life.serve();
  });
  const stopped = expect(life.stop()).rejects.toThrow("broken");
  await vi.advanceTimersByTimeAsync(2000);
  await stopped;
  vi.useRealTimers();
  expect(journal.slice(2)).toEqual(["stop b, draining", "stop a, draining"]);
  expect(logger.at("debug")).toEqual(["a part failed", "a part is slow"]);
});

test("a part that hangs keeps none from stopping, unless it was there before the process served", async () => {
  vi.useFakeTimers();
  const { logger, life, journal, start } = makeLife();
  const ended = Promise.withResolvers<void>();
  const hang = (): Promise<never> => new Promise(() => undefined);
  await life.run(async () => {
    await start("a");
    await start("b", () => ended.promise);
    life.serve();
    await start("c", hang);
    await start("d");
  });
  const stopped = life.stop();
  await vi.advanceTimersByTimeAsync(20_000);
  const all = ["d", "c", "b"].map((name) => `stop ${name}, draining`);
  expect(journal.slice(4)).toEqual(all);
  await vi.advanceTimersByTimeAsync(20_000);
  ended.resolve();
  await stopped;
  vi.useRealTimers();
  expect(journal.slice(4)).toEqual([...all, "stop a, draining"]);
  expect(logger.at("warn")).toEqual(["a part does not stop in time, and the others do not wait"]);
});
