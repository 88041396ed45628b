import { expect, test } from "vitest";
import { Slots } from "./slots.ts";

test("acquire() grants as many slots as there are, the rest first come first served", async () => {
  const slots = new Slots(2);
  const order: string[] = [];
  const work = async (name: string): Promise<void> => {
    using _slot = await slots.acquire();
    order.push(`${name} starts`);
    await new Promise(setImmediate);
    order.push(`${name} ends`);
  };
  await Promise.all(["a", "b", "c"].map((name) => work(name)));
  expect(order.slice(0, 3)).toEqual(["a starts", "b starts", "a ends"]);
  expect(order.at(-1)).toBe("c ends");
});

test("acquire() that is aborted leaves the queue, and takes no slot", async () => {
  const slots = new Slots(1);
  const first = await slots.acquire();
  const impatient = new AbortController();
  const given = slots.acquire(impatient.signal);
  const patient = slots.acquire();
  impatient.abort(new Error("too late"));
  await expect(given).rejects.toThrow("too late");
  await expect(slots.acquire(impatient.signal)).rejects.toThrow("too late");
  expect(slots.waiting).toBe(1);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  using _second = await patient;
  const third = slots.acquire();
  expect(slots.waiting).toBe(1);
  void third;
});
