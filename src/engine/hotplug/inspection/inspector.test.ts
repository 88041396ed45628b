import { expect, test } from "vitest";
import { hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { type EngineLab, sandbox } from "#engine/testing/engine-lab.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

const key = "default/web";

function statusOf({ publisher }: EngineLab): string {
  return publisher.published.get(key)?.[networkStatusAnnotation] ?? "";
}

/** The status as another program would write it. */
function rewritten(status: string): string {
  const entries = JSON.parse(status) as object[];
  return JSON.stringify(entries.map((each) => Object.fromEntries(Object.entries(each).reverse())));
}

test.each([
  { shows: "its own status", shown: (own: string) => own, restored: false },
  { shows: "the same in another form", shown: rewritten, restored: false },
  { shows: "none", shown: () => undefined, restored: true },
  { shows: "an outdated one", shown: () => "[]", restored: true },
  { shows: "what is no JSON", shown: () => "[{", restored: true },
])("restoreStatus() of a pod that shows $shows publishes it: $restored", async (scene) => {
  const { lab, pod, shown, recorded } = await hotPlugLab("a,b");
  const networkStatus = scene.shown(statusOf(lab));
  lab.publisher.published.clear();
  await lab.engine.restoreStatus({ ...pod(), networkStatus }, { conf: async () => lab.conf });
  await new Promise(setImmediate);
  expect(lab.journal).toEqual(scene.restored ? [`publish ${key}`] : []);
  expect(shown()).toEqual(scene.restored ? await recorded() : []);
});

test.each([
  {
    when: "a status waits to be published",
    prepare: async ({ records }: EngineLab) => {
      const { record, plan } = (await records.load(sandbox))!;
      await records.update({ ...record, pendingStatus: {} }, plan);
    },
  },
  { when: "the pod has no record", prepare: ({ records }: EngineLab) => records.finish(sandbox) },
  {
    when: "its sandbox is detached meanwhile",
    prepare: ({ records }: EngineLab) => {
      const load = records.load.bind(records);
      records.load = async (one) => {
        const stored = await load(one);
        await records.finish(one);
        return stored;
      };
    },
  },
])("restoreStatus() publishes nothing when $when", async ({ prepare }) => {
  const { lab, pod } = await hotPlugLab("a");
  await prepare(lab);
  await lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
  await new Promise(setImmediate);
  expect(lab.journal).not.toContain(`publish ${key}`);
});

test("restoreStatus() waits for the operation that changes the sandbox", async () => {
  const { lab, pod, edit, shown, recorded } = await hotPlugLab("a,b");
  lab.plugins.script("macvlan DEL", async () => {
    void lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
    await new Promise(setImmediate);
    return undefined;
  });
  await edit("a");
  await new Promise(setImmediate);
  const [, unplugged, ...further] = lab.journal;
  expect([unplugged, further[0]]).toEqual(["macvlan DEL net2", "update c1@eth0"]);
  expect(shown()).toEqual(await recorded());
});

test("restoreStatus() leaves a write that fails to the publisher", async () => {
  const { lab, pod } = await hotPlugLab("a");
  lab.publisher.gate = Promise.reject(new Error("no answer"));
  await lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
  await new Promise(setImmediate);
  expect(lab.journal).toEqual([]);
});
