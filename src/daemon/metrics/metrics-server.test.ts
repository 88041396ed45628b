import { request } from "node:https";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { AccessReview, AccessVerdict } from "#kube/access-review.ts";
import { createMetrics } from "./metrics.ts";
import { startMetricsServer } from "./metrics-server.ts";
import { reviewedAccess } from "./reviewed-access.ts";

const verdicts: Readonly<Record<string, AccessVerdict>> = {
  reader: "allowed",
  anybody: "forbidden",
};

async function serve(review: AccessReview = async (token) => verdicts[token] ?? "unauthenticated") {
  const server = await startMetricsServer({
    address: { host: "127.0.0.1", port: 0 },
    metrics: createMetrics({ processMetrics: false }),
    review,
    logger: new FakeLogger(),
  });
  onTestFinished(() => server.close());
  return (path: string, token?: string, method = "GET") =>
    get(server.address.port, { path, method, ...(token && { token }) });
}

/** The certificate is its own: who reads verifies by the token's right, not by a name. */
async function get(port: number, options: { path: string; method: string; token?: string }) {
  const { path, method, token } = options;
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const outgoing = request({
    host: "127.0.0.1",
    port,
    path,
    method,
    headers,
    rejectUnauthorized: false,
    agent: false,
  });
  outgoing.end();
  const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve).once("error", reject);
  });
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

test("whoever may get /metrics reads them, over TLS", async () => {
  const ask = await serve();
  const answer = await ask("/metrics", "reader");

  expect(answer.status).toBe(200);
  expect(answer.headers["content-type"]).toContain("text/plain; version=0.0.4");
  expect(answer.body).toContain("plexus_build_info");
});

test.each([
  ["without a token", undefined, 401],
  ["with a token that is nobody's", "forged", 401],
  ["with a token without the right", "anybody", 403],
])("%s nothing is shown [S-505]", async (_, token, status) => {
  const ask = await serve();
  const answer = await ask("/metrics", token);

  expect(answer.status).toBe(status);
  expect(answer.body).not.toContain("plexus_");
});

test("nothing else is served there, not even health", async () => {
  const ask = await serve();

  expect((await ask("/healthz", "reader")).status).toBe(404);
  expect((await ask("/metrics", "reader", "POST")).status).toBe(405);
});

test("an API server that is away is said, and asked again", async () => {
  let calls = 0;
  const ask = await serve(async () => {
    calls += 1;
    if (calls === 1) throw new Error("away");
    return "allowed";
  });

  expect((await ask("/metrics", "reader")).status).toBe(503);
  expect((await ask("/metrics", "reader")).status).toBe(200);
});

test("an address that is taken is named", async () => {
  const address = { host: "192.0.2.1", port: 1 };
  const options = { address, metrics: createMetrics({ processMetrics: false }) };
  const starting = startMetricsServer({
    ...options,
    review: async () => "allowed",
    logger: new FakeLogger(),
  });

  await expect(starting).rejects.toThrow("cannot serve metrics on 192.0.2.1:1: ");
});

test("a verdict is kept for a minute, whoever asks with it", async () => {
  let now = 0;
  const review = vi.fn<AccessReview>(async () => "allowed");
  const access = reviewedAccess({ review, now: () => now });
  await Promise.all([access("Bearer a"), access("bearer a")]);
  now = 59_000;
  await access("Bearer a");
  expect(review).toHaveBeenCalledTimes(1);
  now = 61_000;
  await access("Bearer a");
  expect(review).toHaveBeenCalledTimes(2);
});

test("strangers cannot make plexusd load the API server [S-506]", async () => {
  const review = vi.fn<AccessReview>(async () => "unauthenticated");
  const access = reviewedAccess({ review, now: () => 0 });
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => access(`Bearer t${i}`)));

  expect(review).toHaveBeenCalledTimes(10);
  expect(new Set(answers)).toEqual(new Set(["unauthenticated", "too-many"]));
});

test.each(["", "Basic YTpi", "Bearer ", "Bearer a b", `Bearer ${"a".repeat(10_000)} `, undefined])(
  "%j is no token and is not asked about",
  async (header) => {
    const review = vi.fn<AccessReview>(async () => "allowed");
    const verdict = await reviewedAccess({ review })(header);
    const isCut = (header?.length ?? 0) > 8192;
    expect(review).toHaveBeenCalledTimes(isCut ? 1 : 0);
    if (!isCut) expect(verdict).toBe("unauthenticated");
  },
);
