import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { type SeenClient, tlsServer, writeCertificate } from "#kube/testing/certificates.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { JsonObject } from "#lib/json.ts";
import { type Frame, FrameReader, FrameType } from "#protocol/frame.ts";
import { decodeDone, encodeRequest } from "#protocol/messages.ts";
import { distPath } from "../../support/paths.ts";

/* plexus-standalone uses Bun's fetch(), which unit tests cannot: what it trusts, and what it sends. */

async function scratch(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "plexus-tls-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

async function apiServer(): Promise<FakeApiServer> {
  const api = await FakeApiServer.start({ tlsDir: await scratch() });
  onTestFinished(() => api[Symbol.asyncDispose]());
  api.put("pods", podObject("web"));
  return api;
}

/** What plexus-standalone sends first for an ADD of pod default/web: an order, or the end of the call. */
async function firstFrame(kubeconfig: string, extraEnv: object = {}): Promise<Frame> {
  const cwd = await scratch();
  await writeFile(join(cwd, ".env"), "PLEXUS_MANIFESTS=/nonexistent\n");
  await writeFile(join(cwd, "bunfig.toml"), 'preload = ["/nonexistent"]\n');
  const proxy = "http://127.0.0.1:1";
  const engine: ChildProcess = spawn(distPath("plexus-standalone"), {
    cwd,
    env: {
      PLEXUS_STATE_DIR: join(cwd, "state"),
      PLEXUS_CLOCK_US: "1000000/1000000",
      HTTPS_PROXY: proxy,
      https_proxy: proxy,
      ...extraEnv,
    },
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  onTestFinished(() => void engine.kill("SIGKILL"));
  const shim = engine.stdio[3] as Duplex;
  const reader = new FrameReader();
  const { promise, resolve, reject } = Promise.withResolvers<Frame>();
  shim.on("data", (chunk: Buffer) => reader.push(chunk).map(resolve));
  shim.on("error", reject);
  engine.on("exit", () => reject(new Error("plexus-standalone ended")));
  const env = {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "c1",
    CNI_NETNS: "/run/netns/c1",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/opt/cni/bin",
    CNI_ARGS: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web",
  };
  const delegates = [{ type: "ptp", name: "a" }];
  const conf = { cniVersion: "1.0.0", name: "plexus", type: "plexus", kubeconfig, delegates };
  shim.write(encodeRequest({ env, stdin: JSON.stringify(conf) }));
  return promise;
}

function errorIn(frame: Frame): { code: number; msg: string } {
  expect(frame.type).toBe(FrameType.Done);
  return JSON.parse(decodeDone(frame).stdout);
}

test("plexus-standalone sends its token to the server that the kubeconfig's authority vouches for", async () => {
  const api = await apiServer();
  const frame = await firstFrame(await api.kubeconfig({ token: "mine" }));
  expect(frame.type).not.toBe(FrameType.Done);
  expect(api.seen[0]?.headers.authorization).toBe("Bearer mine");
});

test.each<[string, (other: JsonObject) => JsonObject]>([
  ["another authority vouches for", (other) => other],
  ["no authority vouches for", () => ({ "certificate-authority-data": "" })],
  ["has another name", () => ({ "tls-server-name": "kubernetes.example" })],
  ["has another address", () => ({ "tls-server-name": "127.0.0.2" })],
])("plexus-standalone sends nothing to a server that %s", async (_, clusterOf) => {
  const [api, other] = [await apiServer(), await apiServer()];
  const { clusters } = JSON.parse(await readFile(await other.kubeconfig(), "utf8"));
  const { server: _server, ...authority } = clusters[0].cluster;
  const kubeconfig = await api.kubeconfig({ token: "t" }, clusterOf(authority));
  const frame = await firstFrame(kubeconfig);
  expect(errorIn(frame)).toMatchObject({
    code: 11,
    msg: expect.stringContaining("pod default/web"),
  });
  expect(api.seen).toEqual([]);
});

test("plexus-standalone trusts the system's authorities only if the kubeconfig names none", async () => {
  const [api, other] = [await apiServer(), await apiServer()];
  const authorityOf = async (kubeconfig: string): Promise<string> =>
    JSON.parse(await readFile(kubeconfig, "utf8")).clusters[0].cluster[
      "certificate-authority-data"
    ];
  const [own, foreign] = [
    await authorityOf(await api.kubeconfig()),
    await authorityOf(await other.kubeconfig()),
  ];
  const systemFile = join(await scratch(), "ca.crt");
  await writeFile(systemFile, Buffer.from(own, "base64"));
  const env = { NODE_EXTRA_CA_CERTS: systemFile };
  const frameFor = async (authority: string): Promise<Frame> =>
    firstFrame(await api.kubeconfig({}, { "certificate-authority-data": authority }), env);
  expect(errorIn(await frameFor(foreign))).toMatchObject({ code: 11 });
  expect(api.seen).toEqual([]);
  expect((await frameFor("")).type).not.toBe(FrameType.Done);
});

test("plexus-standalone verifies nothing if the kubeconfig says so", async () => {
  const api = await apiServer();
  const cluster = { "certificate-authority-data": "", "insecure-skip-tls-verify": true };
  const frame = await firstFrame(await api.kubeconfig({ token: "t" }, cluster));
  expect(frame.type).not.toBe(FrameType.Done);
});

test("plexus-standalone authenticates with a certificate", async () => {
  const dir = await scratch();
  const files = (name: string) => ({
    certFile: join(dir, `${name}.crt`),
    keyFile: join(dir, `${name}.key`),
  });
  writeCertificate("server", files("server"));
  writeCertificate("node-1", files("client"));
  const seen: SeenClient[] = [];
  const server = await tlsServer(files("server"), seen);
  onTestFinished(() => void server.close());
  const kubeconfig = join(dir, "kubeconfig");
  const address = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = {
    "current-context": "c",
    clusters: [{ name: "c", cluster: { server: address, "certificate-authority": "server.crt" } }],
    users: [
      { name: "u", user: { "client-certificate": "client.crt", "client-key": "client.key" } },
    ],
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  };
  await writeFile(kubeconfig, JSON.stringify(config));
  await firstFrame(kubeconfig);
  expect(seen[0]).toMatchObject({ certificate: "node-1", authorization: undefined });
});
