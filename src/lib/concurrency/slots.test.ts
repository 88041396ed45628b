import { expect, test } from "vitest";
import { type Claim, Slots } from "./slots.ts";

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
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  using _second = await patient;
  expect(await granted(slots, [])).toHaveLength(0);
});

/** Acquires slots for each list of claims. @returns the lists that are granted at once */
async function granted(slots: Slots, ...all: readonly (readonly Claim[])[]) {
  const got: Disposable[] = [];
  for (const claims of all)
    void slots.acquire(undefined, { claims }).then((slot) => got.push(slot));
  await new Promise(setImmediate);
  return got;
}

const times = (count: number, ...claims: Claim[]): Claim[][] => Array(count).fill(claims);
const tenant = (key: string): Claim => ({ key, share: 1 });
const network = (key: string): Claim => ({ key, share: 0.5 });

test("acquire() with claims gives each key half of what is left, so that others always get some", async () => {
  const slots = new Slots(32);
  const counts: number[] = [];
  for (const key of ["a", "b", "c", "d", "e", "f"]) {
    counts.push((await granted(slots, ...times(33, tenant(key)))).length);
  }
  expect(counts).toEqual([16, 8, 4, 2, 1, 1]);
});

test("a key with a smaller share leaves slots to others of the same tenant", async () => {
  const slots = new Slots(30);
  expect(await granted(slots, ...times(33, tenant("a"), network("hangs")))).toHaveLength(10);
  expect(await granted(slots, ...times(33, tenant("a"), network("works")))).toHaveLength(5);
  expect(await granted(slots, [tenant("b"), network("works")])).toHaveLength(1);
  expect(await granted(slots, [tenant("b"), network("hangs")])).toHaveLength(0);
});

test("a released slot goes to the first that may have it", async () => {
  const slots = new Slots(2);
  const [first] = await granted(slots, [tenant("a")]);
  const order: string[] = [];
  const wait = (key: string): void =>
    void slots.acquire(undefined, { claims: [tenant(key)] }).then(() => order.push(key));
  for (const key of ["a", "b", "c"]) wait(key);
  await new Promise(setImmediate);
  expect(order).toEqual(["b"]);
  first?.[Symbol.dispose]();
  first?.[Symbol.dispose]();
  await new Promise(setImmediate);
  expect(order).toEqual(["b", "a"]);
});

test("acquire() with claims that is aborted leaves the queue, and takes no slot", async () => {
  const slots = new Slots(1);
  const [first] = await granted(slots, [tenant("a")]);
  const impatient = new AbortController();
  const claims = { claims: [tenant("b")] };
  const given = slots.acquire(impatient.signal, claims);
  impatient.abort(new Error("too late"));
  await expect(given).rejects.toThrow("too late");
  await expect(slots.acquire(impatient.signal, claims)).rejects.toThrow("too late");
  first?.[Symbol.dispose]();
  expect(await granted(slots, [tenant("c")])).toHaveLength(1);
});

test("resize() grants further slots at once, and leaves those that are held", async () => {
  const slots = new Slots(2);
  const got = await granted(slots, [tenant("a")], [tenant("b")], [tenant("c")], [tenant("d")]);
  expect(got).toHaveLength(2);
  slots.resize(4);
  await new Promise(setImmediate);
  expect(got).toHaveLength(4);
  slots.resize(1);
  for (const slot of got.splice(0)) slot[Symbol.dispose]();
  expect(await granted(slots, [tenant("a")], [tenant("b")])).toHaveLength(1);
});
