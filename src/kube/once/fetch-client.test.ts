import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { readPlainKubeconfig } from "#kube/api/plain-kubeconfig.ts";
import { LiveGetter } from "#kube/live-get.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { JsonObject } from "#lib/json.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { FetchClient } from "./fetch-client.ts";

const path = "/api/v1/namespaces/default/pods/web";
const get = { path, timeoutMs: 2000 };

async function serverOf(): Promise<FakeApiServer> {
  const api = await FakeApiServer.start();
  onTestFinished(() => api[Symbol.asyncDispose]());
  api.put("pods", podObject("web"));
  return api;
}

function clientOf(kubeconfig: string): FetchClient {
  return new FetchClient(() => readPlainKubeconfig(kubeconfig));
}

async function connected(): Promise<{ api: FakeApiServer; client: FetchClient }> {
  const api = await serverOf();
  return { api, client: clientOf(await api.kubeconfig({ token: "mine" })) };
}

test("json() sends the token, the query and the body", async () => {
  const { api, client } = await connected();
  await client.json({ ...get, query: { a: 1, b: undefined } });
  const body = { metadata: { annotations: { a: "b" } } };
  const contentType = "application/merge-patch+json";
  await client.json({ ...get, method: "PATCH", path: `${path}/status`, body, contentType });
  expect(api.seen.map(({ method, query, headers }) => [method, `${query}`, headers])).toMatchObject(
    [
      ["GET", "a=1", { authorization: "Bearer mine", accept: "application/json" }],
      ["PATCH", "", { authorization: "Bearer mine", "content-type": contentType }],
    ],
  );
  expect(api.objects("pods").get("default/web")).toMatchObject(body);
});

test("json() uses no idle connection for a repeated request, nor for what follows", async () => {
  const { client } = await connected();
  const sent = vi.spyOn(globalThis, "fetch");
  onTestFinished(() => sent.mockRestore());
  for (const isRepeated of [false, true, false]) await client.json({ ...get, isRepeated });
  expect(sent.mock.calls.map(([, init]) => init?.keepalive)).toEqual([true, false, false]);
});

test("json() follows no redirection, which would get the token", async () => {
  const server = createServer((_request, response) => {
    response.writeHead(307, { location: "http://127.0.0.1:1/elsewhere" }).end();
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const kubeconfig = await kubeconfigOf({ server: `http://127.0.0.1:${port}` }, { token: "t" });
  await expect(clientOf(kubeconfig).json(get)).rejects.toMatchObject({
    message: `GET ${path}: HTTP 307: it redirects to http://127.0.0.1:1/elsewhere`,
  });
});

test("json() rejects a response of more than 16 MiB", async () => {
  const api = await serverOf();
  const blanks = " ".repeat(17_000_000);
  api.put("pods", { ...podObject("web"), blanks });
  // A busy machine needs seconds for 17 MB.
  const slow = { ...get, timeoutMs: 20_000 };
  await expect(clientOf(await api.kubeconfig()).json(slow)).rejects.toMatchObject({
    reason: "ResponseTooLong",
  });
});

test("json() reads the kubeconfig again, once, when the server rejects the token", async () => {
  const api = await serverOf();
  const kubeconfig = await api.kubeconfig({ token: "old" });
  const client = clientOf(kubeconfig);
  api.token = "new";
  await expect(client.json(get)).rejects.toMatchObject({ status: 401 });
  await writeFile(kubeconfig, (await readFile(kubeconfig, "utf8")).replace('"old"', '"new"'));
  expect(await client.json(get)).toMatchObject({ metadata: { name: "web" } });
});

test("a kubeconfig that cannot be used fails requests at once, and nothing before", async () => {
  const kubeconfig = join(await temporaryDirectory(), "none");
  const client = clientOf(kubeconfig);
  const problem = { code: 11, message: expect.stringContaining(kubeconfig) };
  await expect(client.json(get)).rejects.toMatchObject(problem);
  const startedAt = performance.now();
  const reading = new LiveGetter(client, 20_000).get({ object: "pod default/web", path });
  await expect(reading).rejects.toMatchObject(problem);
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});

test("json() fails after its time limit", async () => {
  const { api, client } = await connected();
  api.script({ when: () => true, answer: "hang" });
  await expect(client.json({ ...get, timeoutMs: 100 })).rejects.toMatchObject({
    message: `GET ${path}: no answer within 100 ms`,
    transient: true,
  });
  await client.json(get);
});

test("json() reports the status, the reason and the message of an error", async () => {
  const { client } = await connected();
  await expect(client.json({ ...get, path: `${path}x` })).rejects.toMatchObject({
    status: 404,
    reason: "NotFound",
  });
});

test("json() fails when nothing listens", async () => {
  const { api, client } = await connected();
  await api.fail("gone");
  await expect(client.json(get)).rejects.toMatchObject({ status: 0, transient: true });
});

test("json() leaves out what Bun advises the programmer", async () => {
  const client = clientOf(await kubeconfigOf({}, {}));
  const hint = "For more information, pass `verbose: true` in the second argument to fetch()";
  vi.spyOn(globalThis, "fetch").mockRejectedValue(new Error(`The socket was closed. ${hint}`));
  onTestFinished(() => void vi.restoreAllMocks());
  await expect(client.json(get)).rejects.toMatchObject({
    message: `GET ${path}: The socket was closed.`,
  });
});

/** The kubeconfig of a cluster and a user, as YAML or JSON. */
async function kubeconfigOf(cluster: JsonObject, user: JsonObject): Promise<string> {
  const file = join(await temporaryDirectory(), "kubeconfig");
  const config = {
    "current-context": "c",
    clusters: [{ name: "c", cluster: { server: "https://10.0.0.1:6443/prefix", ...cluster } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

const encoded = Buffer.from("PEM").toString("base64");

test("readPlainKubeconfig() reads certificates, a token and the TLS settings", async () => {
  const cluster = {
    "certificate-authority-data": encoded,
    "certificate-authority": "/nonexistent",
    "tls-server-name": "kubernetes",
    "insecure-skip-tls-verify": true,
    "proxy-url": "",
  };
  const file = await kubeconfigOf(cluster, {
    token: "t\n",
    "client-key-data": encoded,
    exec: null,
  });
  expect(readPlainKubeconfig(file)).toEqual({
    server: new URL("https://10.0.0.1:6443/prefix"),
    tls: { ca: "PEM", key: "PEM", serverName: "kubernetes", rejectUnauthorized: false },
    token: "t",
  });
});

test("readPlainKubeconfig() reads YAML, and the files of certificates from its directory", async () => {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, "ca.crt"), "authority");
  const yaml = `apiVersion: v1
kind: Config
current-context: main # the only one
clusters: [{name: main, cluster: {server: "http://host", certificate-authority: ca.crt}}]
users: [{name: me, user: {}}]
contexts: [{name: main, context: {cluster: main, user: me, namespace: kube-system}}]
`;
  await writeFile(join(dir, "kubeconfig"), yaml);
  expect(readPlainKubeconfig(join(dir, "kubeconfig"))).toEqual({
    server: new URL("http://host"),
    tls: { ca: "authority", rejectUnauthorized: true },
  });
});

const onlyPlain = (key: string) =>
  `${key}: only a certificate or a token in the file can be used here`;

test.each<[string, JsonObject, JsonObject, string]>([
  ["a program", {}, { exec: { command: "login" } }, onlyPlain("exec")],
  ["a token file", {}, { tokenFile: "/etc/shadow" }, onlyPlain("tokenFile")],
  ["an identity provider", {}, { "auth-provider": { name: "oidc" } }, onlyPlain("auth-provider")],
  ["a password", {}, { username: "admin", password: "x" }, onlyPlain("username")],
  ["an impersonated user", {}, { token: "t", as: "root" }, onlyPlain("as")],
  ["a proxy", { "proxy-url": "http://proxy" }, {}, onlyPlain("proxy-url")],
  ["an unknown key", { "new-key": "x" }, {}, onlyPlain("new-key")],
  ["a token with a line break", {}, { token: "a\r\nb: c" }, "character that is not allowed"],
  ["a number as token", {}, { token: 1 }, "token is not a string"],
  ["another protocol", { server: "file:///etc/shadow" }, {}, "not an http or https URL"],
  ["a missing file", { "certificate-authority": "none" }, {}, "ENOENT"],
])("readPlainKubeconfig() rejects %s", async (...row) => {
  const [, cluster, user, problem] = row;
  const file = await kubeconfigOf(cluster, user);
  expect(() => readPlainKubeconfig(file)).toThrow(problem);
  expect(() => readPlainKubeconfig(file)).toThrow(`kubeconfig ${file}: `);
});
