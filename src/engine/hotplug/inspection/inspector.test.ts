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
  const owedAndPaid = ["update c1@eth0", `publish ${key}`, "update c1@eth0"];
  expect(lab.journal).toEqual(scene.restored ? owedAndPaid : []);
  expect(shown()).toEqual(scene.restored ? await recorded() : []);
  expect((await lab.records.load(sandbox))?.record.pendingStatus).toBeUndefined();
});

test.each([
  {
    when: "a status waits to be published",
    prepare: async ({ records }: EngineLab) => {
      const { record, plan } = (await records.load(sandbox))!;
      await records.update({ ...record, pendingStatus: {} }, plan);
    },
  },
  { when: "the pod has no record", prepare: ({ records }: EngineLab) => records.remove(sandbox) },
  {
    when: "its sandbox is detached meanwhile",
    prepare: ({ records }: EngineLab) => {
      const load = records.load.bind(records);
      records.load = async (one) => {
        const stored = await load(one);
        await records.remove(one);
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

test("a restored status that cannot be written is published by the next process", async () => {
  const { lab, pod, shown, recorded } = await hotPlugLab("a");
  lab.publisher.published.clear();
  lab.publisher.gate = Promise.reject(new Error("no answer"));
  await lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
  await new Promise(setImmediate);
  expect(shown()).toEqual([]);
  lab.publisher.gate = Promise.resolve();
  await lab.engine.publishPendingStatuses(async () => false);
  expect(shown()).toEqual(await recorded());
});

test("restoreStatus() waits for another process's call, and leaves a sandbox alone whose DEL has begun", async () => {
  const { lab, pod } = await hotPlugLab("a");
  const asked: boolean[] = [];
  lab.records.isLocked = async () => asked.push(true) < 3;
  await lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
  expect([asked.length, lab.journal[0]]).toEqual([3, "update c1@eth0"]);
  await new Promise(setImmediate);
  lab.records.beginDel(sandbox, new Date().toISOString());
  lab.journal.length = 0;
  await lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
  expect(lab.journal).toEqual([]);
});

test("a restored status is not sent any more if the sandbox is detached meanwhile", async () => {
  const { lab, pod } = await hotPlugLab("a");
  const slow = Promise.withResolvers<void>();
  lab.publisher.gate = slow.promise;
  await lab.engine.restoreStatus(pod(), { conf: async () => lab.conf });
  await lab.records.remove(sandbox);
  slow.resolve();
  await new Promise(setImmediate);
  expect(lab.journal).not.toContain(`publish ${key}`);
});
