import { expect, test } from "vitest";
import { type Claim, FairSlots } from "./fair-slots.ts";

const never = new AbortController().signal;

/** Acquires slots for each list of claims. @returns those that are granted at once */
async function granted(slots: FairSlots, ...all: readonly (readonly Claim[])[]) {
  const got: Disposable[] = [];
  for (const claims of all) void slots.acquire(claims, never).then((slot) => got.push(slot));
  await new Promise(setImmediate);
  return got;
}

const times = (count: number, ...claims: Claim[]): Claim[][] => Array(count).fill(claims);
const tenant = (key: string): Claim => ({ key, share: 1 });
const network = (key: string): Claim => ({ key, share: 0.5 });

test("acquire() gives each key half of what is left, so that others always get some", async () => {
  const slots = new FairSlots(32);
  const counts: number[] = [];
  for (const key of ["a", "b", "c", "d", "e", "f"]) {
    counts.push((await granted(slots, ...times(33, tenant(key)))).length);
  }
  expect(counts).toEqual([16, 8, 4, 2, 1, 1]);
});

test("a key with a smaller share leaves slots to others of the same tenant", async () => {
  const slots = new FairSlots(30);
  expect(await granted(slots, ...times(33, tenant("a"), network("hangs")))).toHaveLength(10);
  expect(await granted(slots, ...times(33, tenant("a"), network("works")))).toHaveLength(5);
  expect(await granted(slots, [tenant("b"), network("works")])).toHaveLength(1);
  expect(await granted(slots, [tenant("b"), network("hangs")])).toHaveLength(0);
});

test("a released slot goes to the first that may have it", async () => {
  const slots = new FairSlots(2);
  const [first] = await granted(slots, [tenant("a")]);
  const order: string[] = [];
  const wait = (key: string): void =>
    void slots.acquire([tenant(key)], never).then(() => order.push(key));
  for (const key of ["a", "b", "c"]) wait(key);
  await new Promise(setImmediate);
  expect(order).toEqual(["b"]);
  first?.[Symbol.dispose]();
  first?.[Symbol.dispose]();
  await new Promise(setImmediate);
  expect(order).toEqual(["b", "a"]);
});

test("acquire() that is aborted leaves the queue, and takes no slot", async () => {
  const slots = new FairSlots(1);
  const [first] = await granted(slots, [tenant("a")]);
  const impatient = new AbortController();
  const given = slots.acquire([tenant("b")], impatient.signal);
  impatient.abort(new Error("too late"));
  await expect(given).rejects.toThrow("too late");
  await expect(slots.acquire([tenant("b")], impatient.signal)).rejects.toThrow("too late");
  first?.[Symbol.dispose]();
  expect(await granted(slots, [tenant("c")])).toHaveLength(1);
});

test("resize() grants further slots at once, and leaves those that are held", async () => {
  const slots = new FairSlots(2);
  const got = await granted(slots, [tenant("a")], [tenant("b")], [tenant("c")], [tenant("d")]);
  expect(got).toHaveLength(2);
  slots.resize(4);
  await new Promise(setImmediate);
  expect(got).toHaveLength(4);
  slots.resize(1);
  for (const slot of got.splice(0)) slot[Symbol.dispose]();
  expect(await granted(slots, [tenant("a")], [tenant("b")])).toHaveLength(1);
});
