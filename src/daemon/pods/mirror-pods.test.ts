import { expect, test } from "vitest";
import type { Pod } from "#engine/ports/cluster.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { MirrorPods } from "./mirror-pods.ts";

/** A node with pods, and what the engine answers for them, `true` at last. */
function makeNode(...pods: Pod[]) {
  const asked: string[] = [];
  const answers: (boolean | Error)[] = [];
  const logger = new FakeLogger();
  const mirrors = new MirrorPods({
    engine: {
      adoptMirror: async ({ uid }) => {
        asked.push(uid);
        const answer = answers.shift() ?? true;
        if (answer instanceof Error) throw answer;
        return answer;
      },
    },
    nodePods: { list: () => pods },
    conf: async () => ({}),
    logger,
  });
  return { mirrors, asked, answers, logger };
}

const etcd: Pod = {
  ...{ namespace: "kube-system", name: "etcd", uid: "mirror-1", annotations: {}, isStatic: true },
};

test("each mirror of a static pod is looked at regularly, and no other pod", async () => {
  const { mirrors, asked } = makeNode(etcd, { ...etcd, name: "web", isStatic: false });
  await mirrors.podChanged({ ...etcd, uid: "mirror-0" });
  await mirrors.podChanged(undefined);
  for (let i = 0; i < 2; i++) await mirrors.check();
  expect(asked).toEqual(["mirror-0", "mirror-1", "mirror-1"]);
});

test("a mirror that cannot be recorded now is recorded later", async () => {
  const { mirrors, asked, answers, logger } = makeNode(etcd);
  answers.push(false, new Error("the record cannot be read"));
  await mirrors.podChanged(etcd);
  for (let i = 0; i < 3; i++) await mirrors.check();
  expect(asked).toEqual(["mirror-1", "mirror-1", "mirror-1", "mirror-1"]);
  expect(logger.at("warn")).toEqual(["cannot record the new mirror of a static pod"]);
});
