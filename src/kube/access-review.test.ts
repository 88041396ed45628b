import { expect } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { accessReview } from "./access-review.ts";
import type { FakeApiServer } from "./testing/fake-api-server.ts";
import { kubeTest as test } from "./testing/kube-test.ts";

function script(api: FakeApiServer, resource: string, status: JsonObject): void {
  const when = ({ path }: { path: string }): boolean => path.endsWith(`/${resource}`);
  api.script({ when, answer: 201, body: { status } });
}

const user = {
  ...{ username: "system:serviceaccount:m:p", uid: "u" },
  ...{ groups: ["g"], extra: { k: ["v"] } },
};

test("the review covers the token's user, its groups and extras", async ({ api, client }) => {
  script(api, "tokenreviews", { authenticated: true, user });
  script(api, "subjectaccessreviews", { allowed: true });

  expect(await accessReview(client, 1000)("secret", "/metrics")).toBe("allowed");
  expect(api.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "POST /apis/authentication.k8s.io/v1/tokenreviews",
    "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
  ]);
  const { username, ...rest } = user;
  expect(api.seen.map(({ body }) => body)).toEqual([
    {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token: "secret" },
    },
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec: {
        ...{ user: username, ...rest },
        nonResourceAttributes: { path: "/metrics", verb: "get" },
      },
    },
  ]);
});

test.for<[string, JsonObject, JsonObject | undefined, string]>([
  ["an unknown token", { authenticated: false }, undefined, "unauthenticated"],
  ["an answer without a user", { authenticated: true }, undefined, "unauthenticated"],
  ["an empty answer", {}, undefined, "unauthenticated"],
  ["a user without permission", { authenticated: true, user }, { allowed: false }, "forbidden"],
  ["an answer without a decision", { authenticated: true, user }, {}, "forbidden"],
])("access is denied for %s", async ([, token, access, verdict], { api, client }) => {
  script(api, "tokenreviews", token);
  if (access !== undefined) script(api, "subjectaccessreviews", access);
  expect(await accessReview(client, 1000)("secret", "/metrics")).toBe(verdict);
});

test("an HTTP error fails the review instead of denying access", async ({ api, client }) => {
  api.script({ when: () => true, answer: 500 });
  await expect(accessReview(client, 1000)("secret", "/metrics")).rejects.toThrow("tokenreviews");
});
