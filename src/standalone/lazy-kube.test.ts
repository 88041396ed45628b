import { expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { FakePublisher } from "#engine/testing/fake-publisher.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { lazyKube } from "./lazy-kube.ts";

const pod = {
  ...{ namespace: "default", name: "web", uid: "u1" },
  ...{ annotations: {}, isStatic: false },
};

function unusable(): {
  logger: FakeLogger;
  opened: () => number;
  kube: ReturnType<typeof lazyKube>;
} {
  const logger = new FakeLogger();
  let opened = 0;
  const open = (): never => {
    opened += 1;
    throw new Error("kubeconfig k: it is not YAML");
  };
  return { logger, opened: () => opened, kube: lazyKube({ open, logger, closeGraceMs: 0 }) };
}

test("lazyKube() opens no API client for a call that does not need one", async () => {
  const { kube, opened } = unusable();
  await kube.publisher.detached(pod);
  await kube.close();
  expect(opened()).toBe(0);
});

test("lazyKube() without API access fails to read pods and leaves a status pending", async () => {
  const { kube, logger } = unusable();
  await expect(kube.source.getPod(pod, {})).rejects.toMatchObject({
    code: 11,
    message: "kubeconfig k: it is not YAML",
  });
  const shown = kube.publisher.shown(pod, new AbortController().signal);
  await expect(shown).rejects.toThrow("kubeconfig k: it is not YAML");
  kube.publisher.changed(pod);
  kube.events.record(pod, { type: "Warning", reason: "AttachFailed", message: "why" });
  await kube.publisher.detached(pod);
  await kube.close();
  expect(JSON.stringify(logger.lines)).toContain("why");
});

test("lazyKube() that a pod read early has opened publishes what the engine wants", async () => {
  const publisher = new FakePublisher([]);
  const never = (): never => expect.unreachable();
  const open = () => ({
    source: { getPod: async () => pod, getPodObject: never, getNad: never, notReadyReason: never },
    publisher,
    events: { record: never },
    resourceApi: { getClaim: never, listSlices: never },
    close: async () => undefined,
  });
  const kube = lazyKube({ open, logger: new FakeLogger(), closeGraceMs: 0 });
  kube.readEarly(pod);
  expect(await kube.source.getPod(pod, {})).toBe(pod);
  kube.publisher.follow(async () => "[]");
  expect(await kube.publisher.shown(pod, new AbortController().signal)).toBe(undefined);
  expect(publisher.published.get("default/web")).toEqual({ [networkStatusAnnotation]: "[]" });
});
