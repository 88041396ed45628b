import { expect } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { type KubeAdapter, type KubeOptions, startKube } from "#kube/adapter.ts";
import { eventually } from "#lib/testing/eventually.ts";
import type { FakeApiServer } from "./fake-api-server.ts";

/** The adapter of node `node-1`, with short times; stopped when it goes out of scope. */
export async function startAdapter(
  api: FakeApiServer,
  options: Partial<KubeOptions> = {},
): Promise<KubeAdapter & AsyncDisposable> {
  const kube = await startKube({
    kubeconfig: await api.kubeconfig(),
    nodeName: "node-1",
    apiTimeoutMs: 1000,
    logger: new FakeLogger(),
    timings: { backoff: { initialMs: 5, maxMs: 20 } },
    ...options,
  });
  return { ...kube, [Symbol.asyncDispose]: () => kube.stop(100) };
}

/** The same after its LISTs. */
export async function startSyncedAdapter(
  api: FakeApiServer,
  options: Partial<KubeOptions> = {},
): Promise<KubeAdapter & AsyncDisposable> {
  const kube = await startAdapter(api, options);
  await whenSynced(kube);
  return kube;
}

/** Resolves when pods and definitions have been listed. */
export function whenSynced({ source }: KubeAdapter): Promise<void> {
  return eventually(() => expect(source.notReadyReason()).toBeUndefined());
}
