import { expect, test } from "vitest";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { podObject } from "#kube/testing/objects.ts";
import { ApiClient } from "./client.ts";
import { kubeconfigCredentials } from "./kubeconfig.ts";

test("json() reads no answer of more than 16 MiB, and names what was asked for", async () => {
  await using api = await FakeApiServer.start();
  api.put("pods", podObject("a", { annotations: { note: "x".repeat(17_000_000) } }));
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
  const answer = client.json({ path: "/api/v1/namespaces/default/pods/a", timeoutMs: 30_000 });
  await expect(answer).rejects.toMatchObject({
    message:
      "GET /api/v1/namespaces/default/pods/a: the answer is longer than the limit of 16777216 bytes",
    reason: "AnswerTooLong",
    transient: true,
  });
  client.close();
});
