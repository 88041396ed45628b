import { expect, test } from "vitest";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import type { JsonObject } from "#lib/json.ts";
import { accessReview } from "./access-review.ts";
import { FakeApiServer } from "./testing/fake-api-server.ts";

async function askWith(answers: { token: JsonObject; access?: JsonObject }) {
  await using api = await FakeApiServer.start();
  const answer = (resource: string, status: JsonObject): void =>
    api.script({
      when: ({ path }) => path.endsWith(`/${resource}`),
      answer: 201,
      body: { status },
    });
  answer("tokenreviews", answers.token);
  if (answers.access !== undefined) answer("subjectaccessreviews", answers.access);
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
  try {
    return { verdict: await accessReview(client, 1000)("secret", "/metrics"), seen: api.seen };
  } finally {
    client.close();
  }
}

const user = {
  username: "system:serviceaccount:m:p",
  uid: "u",
  groups: ["g"],
  extra: { k: ["v"] },
};

test("the token's user, with groups and extras, is whom the second question is about", async () => {
  const { verdict, seen } = await askWith({
    token: { authenticated: true, user },
    access: { allowed: true },
  });

  expect(verdict).toBe("allowed");
  expect(seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "POST /apis/authentication.k8s.io/v1/tokenreviews",
    "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
  ]);
  expect(seen[0]?.body).toMatchObject({ spec: { token: "secret" } });
  expect(seen[1]?.body).toMatchObject({
    spec: {
      user: "system:serviceaccount:m:p",
      uid: "u",
      groups: ["g"],
      extra: { k: ["v"] },
      nonResourceAttributes: { path: "/metrics", verb: "get" },
    },
  });
});

const refusals: readonly {
  name: string;
  token: JsonObject;
  access?: JsonObject;
  verdict: string;
}[] = [
  { name: "a token of nobody", token: { authenticated: false }, verdict: "unauthenticated" },
  { name: "an answer without a user", token: { authenticated: true }, verdict: "unauthenticated" },
  { name: "an answer without anything", token: {}, verdict: "unauthenticated" },
  {
    name: "a user without the right",
    token: { authenticated: true, user },
    access: { allowed: false },
    verdict: "forbidden",
  },
  {
    name: "an answer without a decision",
    token: { authenticated: true, user },
    access: {},
    verdict: "forbidden",
  },
];

test.each(refusals)("$name", async ({ verdict, ...answers }) => {
  expect((await askWith(answers)).verdict).toBe(verdict);
});

test("an answer that is none is an error, not a verdict", async () => {
  await using api = await FakeApiServer.start();
  api.script({ when: () => true, answer: 500 });
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
  await expect(accessReview(client, 1000)("secret", "/metrics")).rejects.toThrow("tokenreviews");
  client.close();
});
