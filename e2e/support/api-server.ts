import { FakeApiServer } from "#kube/testing/fake-api-server.ts";

/** Starts an API server for many thousand calls: with HTTPS, and without keeping requests or events. */
export async function startApiServer(tlsDir: string): Promise<FakeApiServer> {
  const api = await FakeApiServer.start({ tlsDir });
  api.onRequest = () => undefined;
  api.forgotten.add("events");
  return api;
}
