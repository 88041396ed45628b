import { readFile, rename, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { type SeenClient, tlsServer, writeCertificate } from "#kube/testing/certificates.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { ApiClient } from "./client.ts";
import { inClusterCredentials } from "./in-cluster.ts";
import { kubeconfigCredentials } from "./kubeconfig.ts";

const tokensOf = (api: FakeApiServer) => api.seen.map(({ headers }) => headers.authorization);

const version = { path: "/api/v1/pods", timeoutMs: 2000 };

test("a relative token file is reread after the server rejects its token", async ({ api }) => {
  const path = await api.kubeconfig({ tokenFile: "the-token" });
  const tokenFile = join(path, "../the-token");
  await writeFile(tokenFile, "first\n");
  api.token = "first";
  const client = new ApiClient(await kubeconfigCredentials(path));
  await client.json(version);
  await writeFile(tokenFile, "second\n");
  api.token = "second";
  await client.json(version);
  expect(tokensOf(api)).toEqual(["Bearer first", "Bearer first", "Bearer second"]);
  client.close();
});

test("a token that is rejected twice fails the request", async ({ api }) => {
  api.token = "another";
  const client = new ApiClient(
    await kubeconfigCredentials(await api.kubeconfig({ token: "mine" })),
  );
  await expect(client.json(version)).rejects.toMatchObject({ status: 401, refused: true });
  expect(api.seen).toHaveLength(2);
  client.close();
});

test("a kubeconfig's server may have a path, as behind a proxy", async ({ api }) => {
  const server = `${api.url}/k8s/clusters/c-1/`;
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig({}, { server })));
  await client.json(version).catch(() => undefined);
  expect(api.seen[0]?.path).toBe("/k8s/clusters/c-1/api/v1/pods");
  client.close();
});

test.for([
  ["no current context", { "current-context": "" }, /current-context/],
  ["a missing context", { "current-context": "x" }, /context x/],
  ["an invalid server URL", { clusters: [{ name: "test", cluster: { server: "no" } }] }, /server/],
] as const)("a kubeconfig with %s is rejected by path", async ([, change, message], { api }) => {
  const path = await api.kubeconfig();
  await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, "utf8")), ...change }));
  await expect(kubeconfigCredentials(path)).rejects.toThrow(message);
  await expect(kubeconfigCredentials(path)).rejects.toThrow(path);
});

test.each([
  ["username", { username: "u", password: "p" }],
  ["exec", { exec: { command: "login" } }],
  ["as", { token: "mine", as: "somebody" }],
])(
  "a kubeconfig that needs more than certificates or a token is rejected: %s",
  async (key, user) => {
    await using api = await FakeApiServer.start();
    const path = await api.kubeconfig(user);
    await expect(kubeconfigCredentials(path)).rejects.toThrow(
      `kubeconfig ${path}: ${key}: only a certificate or a token can be used here`,
    );
  },
);

/** A server of the name `server` at an address of this machine, with files for a client to connect to it. */
async function startTlsServer() {
  const dir = await temporaryDirectory();
  const files = { certFile: join(dir, "ca.crt"), keyFile: join(dir, "server.key") };
  writeCertificate("server", files);
  const seen: SeenClient[] = [];
  const server = await tlsServer(files, seen);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { dir, port: (server.address() as AddressInfo).port, ca: files.certFile, seen };
}

/** Writes a kubeconfig file. */
async function writeKubeconfig(path: string, cluster: object, user: object): Promise<void> {
  const config = {
    "current-context": "test",
    clusters: [{ name: "test", cluster }],
    users: [{ name: "test", user }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
  };
  await writeFile(path, JSON.stringify(config));
}

test("the in-cluster credentials verify the server and send the rotated token", async () => {
  const { dir, port, seen } = await startTlsServer();
  await writeFile(join(dir, "token"), "t1");
  const options = { host: "127.0.0.1", port: `${port}`, serviceAccountDir: dir };
  const credentials = inClusterCredentials(options);
  const client = new ApiClient(credentials);
  await client.json(version);
  await writeFile(join(dir, "token"), "t2");
  credentials.invalidate();
  await client.json(version);
  expect(seen.map((each) => each.authorization)).toEqual(["Bearer t1", "Bearer t2"]);
  await rm(join(dir, "token"));
  credentials.invalidate();
  await client.json(version);
  expect(seen.at(-1)?.authorization).toBe("Bearer t2");
  client.close();

  const other = new ApiClient(inClusterCredentials({ ...options, host: "localhost" }));
  await expect(other.json(version)).rejects.toMatchObject({ status: 0 });
  other.close();
});

test("a client certificate renewed in its file or in the kubeconfig is used if it is complete", async () => {
  const { dir, port, ca, seen } = await startTlsServer();
  const client = { certFile: join(dir, "client.crt"), keyFile: join(dir, "client.key") };
  const cluster = { server: `https://127.0.0.1:${port}`, "certificate-authority": ca };
  const kubeconfig = join(dir, "kubeconfig");
  writeCertificate("first", client);
  const user = { "client-certificate": "client.crt", "client-key": "client.key" };
  await writeKubeconfig(kubeconfig, cluster, user);
  const credentials = await kubeconfigCredentials(kubeconfig);
  const api = new ApiClient(credentials);
  const ask = async (): Promise<void> => {
    credentials.invalidate();
    await api.json(version);
  };
  await ask();
  writeCertificate("second", client);
  await ask();
  await writeFile(client.certFile, "-----BEGIN CERTIFICATE-----\nMII");
  await ask();
  const late = new ApiClient(await kubeconfigCredentials(kubeconfig));
  await expect(late.json(version)).rejects.toThrow(
    `kubeconfig ${kubeconfig}: cannot use its certificates or its key`,
  );
  writeCertificate("third", client);
  const data = await Promise.all(
    [client.certFile, client.keyFile].map((f) => readFile(f, "base64")),
  );
  await writeKubeconfig(kubeconfig, cluster, {
    "client-certificate-data": data[0],
    "client-key-data": data[1],
    // kubectl takes the data where there are both.
    ...user,
    "client-certificate": "gone.crt",
  });
  await ask();
  expect(seen.map((each) => each.certificate)).toEqual(["first", "second", "second", "third"]);
  api.close();
});

test("the error about an invalid kubeconfig has its path and none of its content", async () => {
  const path = join(await temporaryDirectory(), "kubeconfig");
  for (const text of ["users: [{token: secret}", "secret", "users: secret", "users: [secret]"]) {
    await writeFile(path, text);
    const error = await kubeconfigCredentials(path).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ message: expect.stringContaining(`kubeconfig ${path}: `) });
    expect((error as Error).message).not.toContain("secret");
  }
});

test("a kubeconfig may name another server later", async ({ api }) => {
  const user = { token: "mine" };
  await using next = await FakeApiServer.start();
  const path = await api.kubeconfig(user);
  const credentials = await kubeconfigCredentials(path);
  const client = new ApiClient(credentials);
  onTestFinished(() => client.close());
  await client.json(version);
  await rename(await next.kubeconfig(user), path);
  credentials.invalidate();
  await client.json(version);
  expect([api.seen.length, next.seen.length, client.server]).toEqual([1, 1, next.url]);
});

test("an error names the request, status and the server's message", async ({ api, client }) => {
  api.script({ when: () => true, answer: 502, body: "<html>Bad gateway</html>" });
  await expect(client.json(version)).rejects.toThrow(
    "GET /api/v1/pods: HTTP 502: <html>Bad gateway</html>",
  );
  api.script({ when: () => true, answer: 200, body: "{" });
  await expect(client.json(version)).rejects.toMatchObject({ name: "ApiError", status: 0 });
});
