import { expect, test } from "vitest";
import { emptySource } from "#engine/ports/empty-ports.ts";
import { withEarlyPod } from "./early-pod.ts";

const pod = {
  ...{ namespace: "default", name: "web", uid: "u1" },
  ...{ annotations: {} },
};
const { namespace, name, uid } = pod;

test("a pod that is read early is read once, and then anew", async () => {
  let reads = 0;
  const getPod = async () => {
    reads += 1;
    return pod;
  };
  const source = withEarlyPod({ ...emptySource, getPod }, { namespace, name, uid });
  expect(reads).toBe(1);
  expect(await source.getPod({ namespace, name, uid }, {})).toBe(pod);
  expect(reads).toBe(1);
  await source.getPod({ namespace, name, uid }, {});
  expect(reads).toBe(2);
});

test("another pod than the one that is read early is read itself", async () => {
  const asked: string[] = [];
  const getPod = async ({ name: each }: { name: string }) => void asked.push(each);
  const source = withEarlyPod({ ...emptySource, getPod }, { namespace, name });
  await source.getPod({ namespace, name: "db" }, {});
  expect(asked).toEqual(["web", "db"]);
});

test("the failure of an early read is that of the first getPod(), whose signal ends its wait", async () => {
  const failing = { ...emptySource, getPod: () => Promise.reject(new Error("no answer")) };
  const failed = withEarlyPod(failing, { namespace, name });
  await new Promise(setImmediate);
  await expect(failed.getPod({ namespace, name }, {})).rejects.toThrow("no answer");
  const hanging = { ...emptySource, getPod: () => new Promise<never>(() => undefined) };
  const signal = AbortSignal.abort(new Error("the shim has gone"));
  const hung = withEarlyPod(hanging, { namespace, name }).getPod({ namespace, name }, { signal });
  await expect(hung).rejects.toThrow("the shim has gone");
});
