import fc from "fast-check";
import { expect, test } from "vitest";
import { podLab, web } from "#engine/testing/pod-lab.ts";
import { hotPlugLab } from "./testing/hot-plug-lab.ts";

test.each([
  { from: "a,a", to: "b@net1,a", has: ["net1 b", "net2 a"], unplugged: ["net1"] },
  { from: "b,a,a", to: "a,b@net2", has: ["net2 b", "net3 a"], unplugged: ["net2", "net1"] },
  { from: "a,a", to: "a@net1,a", has: ["net1 a", "net2 a"], unplugged: [] },
  { from: "a,a", to: "a,a@net1", has: ["net1 a", "net2 a"], unplugged: [] },
  { from: "a,a", to: "a@net2,a,a", has: ["net1 a", "net2 a", "net3 a"], unplugged: [] },
  { from: "a,a", to: "a@net2", has: ["net2 a"], unplugged: ["net1"] },
  { from: "a", to: "a,b@net1", has: ["net1 b", "net2 a"], unplugged: ["net1"] },
  { from: "a@net1", to: "a", has: ["net1 a"], unplugged: [] },
  { from: "a@x1", to: "a", has: ["net1 a"], unplugged: ["x1"] },
  { from: "a@net2,a", to: "a", has: ["net3 a"], unplugged: ["net2"] },
  { from: "a,b", to: "b@net1,a", has: ["net1 b", "net2 a"], unplugged: ["net2", "net1"] },
])("a pod with $from that is edited to $to has $has", async ({ from, to, has, unplugged }) => {
  const pod = await hotPlugLab(from);
  expect(await pod.edit(to)).toMatchObject({ state: "settled" });
  const shown = pod.shown().map((each) => each.replace("default/", ""));
  expect(shown.toSorted()).toEqual(["eth0 default-net", ...has]);
  expect(pod.lab.plugins.log("DEL").map((each) => each.split(" ").at(-1))).toEqual(unplugged);
  expect(await pod.again()).toMatchObject({ state: "settled", operations: [] });
});

interface Element {
  readonly network: string;
  readonly ifName: string | undefined;
}

const element = fc.record({
  network: fc.constantFrom("a", "b"),
  ifName: fc.constantFrom(undefined, undefined, "net1", "net2", "net3"),
});
const annotation = fc.array(element, { maxLength: 4 });

function textOf(elements: readonly Element[]): string {
  return elements
    .map(({ network, ifName }) => (ifName === undefined ? network : `${network}@${ifName}`))
    .join(",");
}

/** Whether a new pod with the annotation starts. */
async function starts(text: string): Promise<boolean> {
  return (await podLab(text).add(web)).exitCode === 0;
}

/** How many attachments stay: named by elements, or for elements without a name. */
function kept(before: readonly Element[], elements: readonly Element[]): number {
  const isNamed = ({ ifName }: Element): boolean => elements.some((each) => each.ifName === ifName);
  const counts = ["a", "b"].map((network) => {
    const own = before.filter((each) => each.network === network);
    const wanted = elements.filter((each) => each.network === network);
    const named = own.filter(({ ifName }) => wanted.some((each) => each.ifName === ifName));
    const unnamed = wanted.filter(({ ifName }) => ifName === undefined);
    const others = own.filter((each) => !isNamed(each));
    return named.length + Math.min(unnamed.length, others.length);
  });
  return counts.reduce((sum, each) => sum + each, 0);
}

test("hot-plug gives a pod what each edit requests that a new pod accepts, and keeps what it can", async () => {
  const property = fc.asyncProperty(
    annotation,
    fc.array(annotation, { minLength: 1, maxLength: 4 }),
    async (first, edits) => {
      fc.pre(await starts(textOf(first)));
      const pod = await hotPlugLab(textOf(first));
      const present = async (): Promise<Element[]> =>
        (await pod.attachments())
          .filter(({ isDefault }) => !isDefault)
          .map(({ displayName, ifName }) => ({ network: displayName.slice(-1), ifName }));
      for (const elements of edits) {
        const before = await present();
        pod.lab.plugins.calls.length = 0;
        const { state } = await pod.edit(textOf(elements));
        const after = await present();
        if (!(await starts(textOf(elements)))) {
          expect(after).toEqual(before);
          continue;
        }
        expect(state).toBe("settled");
        const networks = (all: readonly Element[]) => all.map(({ network }) => network).toSorted();
        expect(networks(after)).toEqual(networks(elements));
        expect(new Set(after.map(({ ifName }) => ifName)).size).toBe(after.length);
        expect(after).toEqual(
          expect.arrayContaining(elements.filter(({ ifName }) => ifName !== undefined)),
        );
        const stay = kept(before, elements);
        expect(pod.lab.plugins.log("DEL")).toHaveLength(before.length - stay);
        expect(pod.lab.plugins.log("ADD")).toHaveLength(after.length - stay);
      }
    },
  );
  await fc.assert(property, { seed: 20_261_127, numRuns: 100 });
});
