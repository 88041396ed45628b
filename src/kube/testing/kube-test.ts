import { test } from "vitest";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { FakeApiServer } from "./fake-api-server.ts";
import { startSyncedAdapter } from "./start-adapter.ts";

/** Tests with an empty API server, a client of it, and the adapter of node `node-1` after its LISTs. */
export const kubeTest = test
  .extend("api", async ({ task: _task }, { onCleanup }) => {
    const api = await FakeApiServer.start();
    onCleanup(() => api[Symbol.asyncDispose]());
    return api;
  })
  .extend("client", async ({ api }, { onCleanup }) => {
    const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
    onCleanup(() => client.close());
    return client;
  })
  .extend("kube", async ({ api }, { onCleanup }) => {
    const kube = await startSyncedAdapter(api);
    onCleanup(() => kube.stop(100));
    return kube;
  });
