import { createPrivateKey, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rename, symlink, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as tlsConnect } from "node:tls";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { AccessReview, AccessVerdict } from "#kube/access-review.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { createMetrics } from "./metrics.ts";
import { startMetricsServer } from "./metrics-server.ts";
import { reviewedAccess } from "./reviewed-access.ts";
import { type Certificate, selfSigned } from "./self-signed.ts";

const verdicts: Readonly<Record<string, AccessVerdict>> = {
  reader: "allowed",
  anybody: "forbidden",
};

afterEach(() => void vi.restoreAllMocks());

async function serve(
  review: AccessReview = async (token) => verdicts[token] ?? "unauthenticated",
  certificate: { certificateDir?: string; renewMs?: number; logger?: FakeLogger } = {},
) {
  const server = await startMetricsServer({
    address: { host: "127.0.0.1", port: 0 },
    metrics: createMetrics(() => "serving"),
    review,
    logger: new FakeLogger(),
    certificateDir: "/nonexistent",
    ...certificate,
  });
  onTestFinished(() => server.close());
  const { port } = server.address;
  const ask = (path: string, token?: string, method = "GET") =>
    get(port, { path, method, ...(token && { token }) });
  return Object.assign(ask, { port });
}

/** The certificate is self-signed, so the client does not verify it. */
async function get(port: number, options: { path: string; method: string; token?: string }) {
  const { path, method, token } = options;
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const to = { host: "127.0.0.1", port, rejectUnauthorized: false, agent: false };
  const [response] = (await once(request({ ...to, path, method, headers }).end(), "response")) as [
    IncomingMessage,
  ];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

test("a server whose port is taken leaves no timer", async () => {
  const { port } = await serve();
  const [set, cleared] = [
    vi.spyOn(globalThis, "setInterval"),
    vi.spyOn(globalThis, "clearInterval"),
  ];
  onTestFinished(() => void vi.restoreAllMocks());
  const address = { host: "127.0.0.1", port };
  const metrics = createMetrics(() => "serving");
  const options = {
    address,
    metrics,
    review: async (): Promise<AccessVerdict> => "allowed",
    logger: new FakeLogger(),
  } as const;
  await expect(startMetricsServer(options)).rejects.toThrow("EADDRINUSE");
  await eventually(() => expect(cleared).toHaveBeenCalledTimes(set.mock.calls.length));
});

test("authorized callers read /metrics over TLS, and nothing else", async () => {
  const ask = await serve();
  const answer = await ask("/metrics", "reader");
  expect(answer.status).toBe(200);
  expect(answer.headers["content-type"]).toContain("text/plain; version=0.0.4");
  expect(answer.body).toContain("plexus_build_info");
  expect((await ask("/healthz", "reader")).status).toBe(404);
  expect((await ask("/metrics", "reader", "POST")).status).toBe(405);
});

test("a request without an authorized token gets no metrics [S-505]", async () => {
  const ask = await serve();
  for (const [token, status] of [
    [undefined, 401],
    ["forged", 401],
    ["anybody", 403],
  ] as const) {
    const answer = await ask("/metrics", token);
    expect(answer.status).toBe(status);
    expect(answer.body).not.toContain("plexus_");
  }
});

test("an unavailable API server gives 503, and the next request asks it again", async () => {
  let calls = 0;
  const ask = await serve(async () => {
    if (++calls === 1) throw new Error("away");
    return "allowed";
  });
  expect((await ask("/metrics", "reader")).status).toBe(503);
  expect((await ask("/metrics", "reader")).status).toBe(200);
});

test.for<[verdict: AccessVerdict, seconds: number, next: AccessVerdict]>([
  ["allowed", 300, "forbidden"],
  ["forbidden", 60, "allowed"],
])("the verdict %s is cached for %i seconds, for all clients", async ([verdict, seconds, next]) => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const review = vi.fn<AccessReview>(async () => (now === 0 ? verdict : next));
  const access = reviewedAccess(review);
  await Promise.all([access("Bearer a", "10.0.0.1"), access("bearer a", "10.0.0.2")]);
  now = seconds * 1000 - 1;
  expect(await access("Bearer a", "10.0.0.1")).toBe(verdict);
  expect(review).toHaveBeenCalledTimes(1);
  now += 2;
  expect(await access("Bearer a", "10.0.0.1")).toBe(next);
  expect(review).toHaveBeenCalledTimes(2);
});

test("unauthenticated clients cannot overload the API server through plexusd [S-506]", async () => {
  vi.spyOn(performance, "now").mockReturnValue(0);
  const review = vi.fn<AccessReview>(async () => "unauthenticated");
  const access = reviewedAccess(review);
  const ask = (_: unknown, i: number) => access(`Bearer t${i}`, `10.0.0.${i}`);
  const answers = await Promise.all(Array.from({ length: 100 }, ask));

  expect(review).toHaveBeenCalledTimes(10);
  expect(new Set(answers)).toEqual(new Set(["unauthenticated", "too-many"]));
});

test("a flood of invalid tokens does not lock out an authorized reader [S-506]", async () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  let isAway = false;
  const access = reviewedAccess(async (token) => {
    if (isAway) throw new Error("away");
    return verdicts[token] ?? "unauthenticated";
  });
  const flood = async (): Promise<void> => {
    for (let i = 0; i < 1000; i++) await access(`Bearer ${now}-${i}`, "10.0.0.66");
  };
  const read = (): Promise<string> => access("Bearer reader", "10.0.0.2");

  await flood();
  expect(await read()).toBe("allowed");
  await flood();
  now = 400_000;
  await flood();
  expect(await read()).toBe("allowed");
  isAway = true;
  now = 800_000;
  await flood();
  expect(await read()).toBe("unknown");
  isAway = false;
  expect(await read()).toBe("allowed");
});

/** Opens connections from addresses 127.0.0.2 and up that send nothing. */
function openConnections(port: number, counts: { addresses: number; each: number }): Socket[] {
  const sockets = Array.from({ length: counts.addresses * counts.each }, (_, i) => {
    const localAddress = `127.0.0.${2 + (i % counts.addresses)}`;
    return connect({ port, host: "127.0.0.1", localAddress })
      .on("error", () => undefined)
      .resume();
  });
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

/** Waits until so many of the sockets are closed, however long the machine takes. */
function closings(sockets: readonly Socket[], count: number): Promise<void> {
  return new Promise((resolve) => {
    let closed = 0;
    for (const socket of sockets) {
      socket.on("close", () => {
        closed += 1;
        if (closed === count) resolve();
      });
    }
  });
}

test("a scrape is answered while other clients open many connections [S-506]", async () => {
  const started = Promise.withResolvers<void>();
  const verdict = Promise.withResolvers<AccessVerdict>();
  const ask = await serve(() => {
    started.resolve();
    return verdict.promise;
  });
  const scrape = ask("/metrics", "reader");
  await started.promise;
  const sockets = openConnections(ask.port, { addresses: 10, each: 15 });
  await closings(sockets, 100);
  verdict.resolve("allowed");

  expect((await scrape).status).toBe(200);
});

test("connections beyond the limit of one address are closed [S-506]", async () => {
  const ask = await serve();
  // 80 of them at once, and fewer if that takes a second: 2 a second are allowed.
  await closings(openConnections(ask.port, { addresses: 1, each: 100 }), 70);

  expect((await ask("/metrics", "reader")).status).toBe(200);
});

test.each(["", "Basic YTpi", "Bearer ", "Bearer a b", `Bearer ${"a".repeat(10_000)} `, undefined])(
  "a header without a token is not reviewed, and a long one is cut: %j",
  async (header) => {
    const review = vi.fn<AccessReview>(async () => "allowed");
    const verdict = await reviewedAccess(review)(header, "10.0.0.1");
    const isCut = (header?.length ?? 0) > 8192;
    expect(review).toHaveBeenCalledTimes(isCut ? 1 : 0);
    if (!isCut) expect(verdict).toBe("unauthenticated");
  },
);

/** The name in the certificate that a server presents. */
async function nameOf(port: number): Promise<string | undefined> {
  const socket = tlsConnect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { subjectaltname } = socket.getPeerCertificate();
  socket.destroy();
  return subjectaltname;
}

/** As the kubelet does, a reader sees the old files or the new ones. */
async function mount(dir: string, { cert, key }: Certificate): Promise<void> {
  const files = await mkdtemp(join(dir, "..data-"));
  await writeFile(join(files, "tls.crt"), cert);
  await writeFile(join(files, "tls.key"), key);
  await symlink(files, join(dir, "new"));
  await rename(join(dir, "new"), join(dir, "mounted"));
}

test("a mounted certificate is used, also a renewed one; one without its key is not", async () => {
  const dir = await temporaryDirectory();
  const certificateDir = join(dir, "mounted");
  await mount(dir, selfSigned("first"));
  const logger = new FakeLogger();
  const { port } = await serve(undefined, { certificateDir, renewMs: 10, logger });
  expect(await nameOf(port)).toBe("DNS:first");
  await mount(dir, { ...selfSigned("second"), key: selfSigned("second").key });
  const isRefused = () => logger.at("error").length > 0;
  await vi.waitUntil(isRefused, { timeout: 5000 });
  expect(await nameOf(port)).toBe("DNS:first");
  await sleep(100);
  expect(logger.at("error")).toHaveLength(1);
  await mount(dir, selfSigned("second"));
  await vi.waitUntil(async () => (await nameOf(port)) === "DNS:second", { timeout: 5000 });
});

test("without one, the certificate is of the host's name and signs itself", () => {
  const name = `${"a".repeat(63)}.${"b".repeat(63)}.example`;
  for (const host of ["node-1", name]) {
    const { cert, key } = selfSigned(host);
    const certificate = new X509Certificate(cert);
    expect(certificate.subject).toBe(`CN=${host}`);
    expect(certificate.checkHost(host)).toBe(host);
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(certificate.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(Date.parse(certificate.validTo) - Date.now()).toBeGreaterThan(3600 * 86_400_000);
    expect(Date.parse(certificate.validFrom)).toBeLessThan(Date.now());
  }
});
