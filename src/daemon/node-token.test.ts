import { afterEach, expect, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { ApiError } from "#kube/api/api-error.ts";
import { NodeToken } from "./node-token.ts";

const sub = "system:serviceaccount:kube-system:plexusd";
const hour = 3600;

function token(issuedAt: number, expiresAt: number): string {
  const claims = { sub, iat: issuedAt, exp: expiresAt };
  return `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;
}

afterEach(() => void vi.restoreAllMocks());

/** A NodeToken whose API server grants ten hours from `clock.now` on, or fails. */
function fixture() {
  const state = { now: 0, requests: 0, failure: undefined as Error | undefined, rejected: "" };
  vi.spyOn(Date, "now").mockImplementation(() => state.now * 1000);
  const logger = new FakeLogger();
  const nodeToken = new NodeToken({
    podToken: async () => token(0, hour),
    request: async (account) => {
      state.requests += 1;
      expect(account).toEqual({ namespace: "kube-system", name: "plexusd" });
      if (state.failure !== undefined) throw state.failure;
      return token(state.now, state.now + 10 * hour);
    },
    isRejected: async (held) => held === state.rejected,
    logger,
  });
  return { state, nodeToken, logger };
}

test("a token is renewed when half of its lifetime is left", async () => {
  const { state, nodeToken } = fixture();
  const first = await nodeToken.get();
  state.now = 5 * hour - 1;
  expect(await nodeToken.get()).toBe(first);
  state.now = 5 * hour + 1;
  expect(await nodeToken.get()).not.toBe(first);
  expect(state.requests).toBe(2);
});

test("a token of a Node that was deleted and registered anew is replaced", async () => {
  const { state, nodeToken } = fixture();
  const first = await nodeToken.get();
  Object.assign(state, { now: 60, rejected: first, failure: new ApiError("no", { status: 503 }) });
  await expect(nodeToken.get()).rejects.toThrow("no");
  state.failure = undefined;
  expect(await nodeToken.get()).not.toBe(first);
});

test("a failed renewal is an error that keeps what is on disk, and is tried again", async () => {
  const { state, nodeToken } = fixture();
  await nodeToken.get();
  state.now = 6 * hour;
  for (const status of [0, 503, 403]) {
    state.failure = new ApiError("no", { status });
    await expect(nodeToken.get()).rejects.toThrow("no");
  }
  state.failure = undefined;
  await nodeToken.get();
  expect(state.requests).toBe(5);
});

test("where the API server never grants one, it is the pod's, with one warning", async () => {
  const { state, nodeToken, logger } = fixture();
  state.failure = new ApiError("unsupported kind Node", { status: 422 });
  expect(await nodeToken.get()).toBe(token(0, hour));
  expect(await nodeToken.get()).toBe(token(0, hour));
  expect(logger.lines).toHaveLength(1);
  expect(JSON.stringify(logger.lines)).toContain("unsupported kind Node");
});

test("while the API server is unavailable, the pod's token does not replace that on disk", async () => {
  const { state, nodeToken } = fixture();
  state.failure = new ApiError("refused", { status: 0 });
  await expect(nodeToken.get()).rejects.toThrow("refused");
});

test("a token of another kind of user cannot request one", async () => {
  const claims = Buffer.from(JSON.stringify({ sub: "admin" })).toString("base64url");
  for (const own of ["opaque", `e30.${claims}.c2ln`]) {
    const nodeToken = new NodeToken({
      podToken: async () => own,
      request: async () => "unused",
      isRejected: async () => false,
      logger: new FakeLogger(),
    });
    await expect(nodeToken.get()).rejects.toThrow("not a service account's");
  }
});
