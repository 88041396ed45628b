import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { ApiClient } from "./client.ts";
import { inClusterCredentials } from "./in-cluster.ts";
import { kubeconfigCredentials } from "./kubeconfig.ts";

async function scratch(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "plexus-credentials-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

const version = { path: "/api/v1/pods", timeoutMs: 2000 };

test("a token file is read again after the server has refused the old token", async () => {
  await using api = await FakeApiServer.start();
  await using dir = await scratch();
  const tokenFile = join(dir.path, "token");
  await writeFile(tokenFile, "first\n");
  api.token = "first";
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig({ tokenFile })));
  await client.json(version);
  await writeFile(tokenFile, "second\n");
  api.token = "second";
  await client.json(version);
  expect(api.seen.map((each) => each.headers.authorization)).toEqual([
    "Bearer first",
    "Bearer first",
    "Bearer second",
  ]);
  client.close();
});

test("a token that is refused after having been read again is an error, not a loop", async () => {
  await using api = await FakeApiServer.start();
  api.token = "another";
  const client = new ApiClient(
    await kubeconfigCredentials(await api.kubeconfig({ token: "mine" })),
  );
  await expect(client.json(version)).rejects.toMatchObject({ status: 401, refused: true });
  expect(api.seen).toHaveLength(2);
  client.close();
});

test("a kubeconfig's relative paths are relative to its own directory", async () => {
  await using api = await FakeApiServer.start();
  const path = await api.kubeconfig({ tokenFile: "the-token" });
  await writeFile(join(path, "../the-token"), "relative");
  const client = new ApiClient(await kubeconfigCredentials(path));
  await client.json(version);
  expect(api.seen[0]?.headers.authorization).toBe("Bearer relative");
  client.close();
});

test("a kubeconfig's server may have a path, as behind a proxy", async () => {
  await using api = await FakeApiServer.start();
  const server = `${api.url}/k8s/clusters/c-1/`;
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig({}, { server })));
  await client.json(version).catch(() => undefined);
  expect(api.seen[0]?.path).toBe("/k8s/clusters/c-1/api/v1/pods");
  client.close();
});

test.each([
  ["no current context", { "current-context": "" }, /current-context/],
  ["a context that is not there", { "current-context": "x" }, /context x/],
  [
    "a server that is no URL",
    { clusters: [{ name: "test", cluster: { server: "no" } }] },
    /server/,
  ],
])("a kubeconfig with %s is refused, its file named", async (_name, change, message) => {
  await using api = await FakeApiServer.start();
  const path = await api.kubeconfig();
  await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, "utf8")), ...change }));
  await expect(kubeconfigCredentials(path)).rejects.toThrow(message);
  await expect(kubeconfigCredentials(path)).rejects.toThrow(path);
});

test("credential plugins and basic authentication are left to the client library", async () => {
  await using api = await FakeApiServer.start();
  await using dir = await scratch();
  const plugin = join(dir.path, "plugin");
  const credential = { apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential" };
  const answer = JSON.stringify({ ...credential, status: { token: "from-plugin" } });
  await writeFile(plugin, `#!/bin/sh\necho '${answer}'\n`, { mode: 0o755 });
  const cluster = { "insecure-skip-tls-verify": true };
  const exec = { apiVersion: credential.apiVersion, command: plugin, interactiveMode: "Never" };
  for (const user of [{ exec }, { username: "u", password: "p" }]) {
    const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig(user, cluster)));
    await client.json(version);
    client.close();
  }
  expect(api.seen.map((each) => each.headers.authorization)).toEqual([
    "Bearer from-plugin",
    `Basic ${Buffer.from("u:p").toString("base64")}`,
  ]);
});

test("the in-cluster credentials verify the server and send the rotated token", async () => {
  await using dir = await scratch();
  await mkdir(join(dir.path, "tls"));
  const [keyFile, certFile] = [join(dir.path, "tls/key.pem"), join(dir.path, "ca.crt")];
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
      .concat(["-subj", "/CN=fake", "-addext", "subjectAltName=IP:127.0.0.1"])
      .concat(["-keyout", keyFile, "-out", certFile]),
    { stdio: "ignore" },
  );
  const tokens: (string | undefined)[] = [];
  const tls = { key: await readFile(keyFile), cert: await readFile(certFile) };
  const server = createServer(tls, (request, response) => {
    tokens.push(request.headers.authorization);
    response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await writeFile(join(dir.path, "token"), "t1");
  const options = { host: "127.0.0.1", port: `${port}`, serviceAccountDir: dir.path, maxAgeMs: 0 };
  const client = new ApiClient(inClusterCredentials(options));
  await client.json(version);
  await writeFile(join(dir.path, "token"), "t2");
  await client.json(version);
  expect(tokens).toEqual(["Bearer t1", "Bearer t2"]);
  await rm(join(dir.path, "token"));
  await client.json(version);
  expect(tokens.at(-1)).toBe("Bearer t2");
  client.close();

  const other = new ApiClient(inClusterCredentials({ ...options, host: "localhost" }));
  await expect(other.json(version)).rejects.toMatchObject({ status: 0 });
  other.close();
  server.closeAllConnections();
  server.close();
});

test("an IPv6 service address is put in brackets", () => {
  const credentials = inClusterCredentials({ host: "fd00::1", port: "443" });
  expect(credentials.server.origin).toBe("https://[fd00::1]");
});

test("a failed request names itself, the status and the server's message", async () => {
  await using api = await FakeApiServer.start();
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
  api.script({ when: () => true, answer: 502, body: "<html>Bad gateway</html>" });
  await expect(client.json(version)).rejects.toThrow(
    "GET /api/v1/pods: HTTP 502: <html>Bad gateway</html>",
  );
  api.script({ when: () => true, answer: 200, body: "{" });
  await expect(client.json(version)).rejects.toMatchObject({ name: "ApiError", status: 0 });
  client.close();
});
