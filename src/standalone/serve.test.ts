import fs from "node:fs";
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { basename, join } from "node:path";
import { duplexPair } from "node:stream";
import { text } from "node:stream/consumers";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { teardownPlan } from "#engine/del/planned-dels.ts";
import type { Call } from "#engine/ports/call.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { readBootId } from "#host/boot-id.ts";
import { ShimSession } from "#host/shim-session.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { nadObject, podObject } from "#kube/testing/objects.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { keptDefinitionsName } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { encodeFrame, FrameReader, FrameType } from "#protocol/frame.ts";
import { decodeDone, encodeRequest } from "#protocol/messages.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { attachment, sandbox } from "#records/testing/sample-record.ts";
import { CallLog } from "./call-log.ts";
import { openCallCluster } from "./cluster.ts";
import { CallConfigs, readNodeName } from "./kept-files.ts";
import { reportFailedAdd } from "./report-failed-add.ts";
import { serveOneCall } from "./serve.ts";

/*
 * Calls that fail before anything is attached: so far no plugin is needed. The conf is what plexusd
 * generates, without a kubeconfig, and the node's policy is in plexusd's configuration alone.
 */

let stateDir: string;

beforeEach(async () => {
  stateDir = await temporaryDirectory();
});

/** Writes the files that plexusd leaves for calls without it. */
async function keep(config: string, kubeconfig?: string): Promise<void> {
  const paths = standalonePaths(stateDir);
  await mkdir(paths.dir);
  await writeFile(paths.config, config);
  if (kubeconfig !== undefined) await writeFile(paths.kubeconfig, kubeconfig);
}

function clusterOptions({ logger }: CallLog, keptKubeconfig: string) {
  const config = { apiTimeoutMs: 1000 };
  const defaultManifests = join(stateDir, "manifests");
  return {
    ...{ manifests: undefined, defaultManifests, keptKubeconfig },
    keptDefinitionsFile: join(stateDir, keptDefinitionsName),
    ...{ nodeName: undefined, config, kubeletDir: stateDir, logger },
  };
}

/** The answer to a call for the pod default/web. */
async function call(
  command: string,
  {
    containerId = "c1",
    conf: confExtra = {},
    args = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web",
    netns = "/run/netns/c1",
  }: { containerId?: string; conf?: object; args?: string; netns?: string } = {},
): Promise<{ exitCode: number; json: JsonObject }> {
  const [engineEnd, shimEnd] = duplexPair();
  const log = new CallLog();
  const kept = standalonePaths(stateDir);
  const config = await new CallConfigs([{ path: kept.config, links: "none" }]).read();
  const served = serveOneCall({
    session: new ShimSession(engineEnd),
    stateDir,
    openRecords: () => FileRecordStore.open(stateDir),
    config: config.engine,
    log,
    clock: () => performance.now(),
    now: () => "2026-01-01T00:00:00Z",
    report: (pod, failure) => reportFailedAdd(join(stateDir, "plexus.sock"), pod, failure),
    openCluster: (opened) => openCallCluster(opened, clusterOptions(log, kept.kubeconfig)),
  });
  const reader = new FrameReader();
  const done = new Promise<{ exitCode: number; stdout: string }>((resolve) => {
    shimEnd.on("data", (chunk: Buffer) => {
      for (const frame of reader.push(chunk)) {
        if (frame.type === FrameType.Done) resolve(decodeDone(frame));
        if (frame.type === FrameType.Occupants)
          setImmediate(() => shimEnd.write(encodeFrame(FrameType.OccupantsResult, [""])));
      }
    });
  });
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    PLEXUS_LINKS: "lo/eth0/",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/opt/cni/bin",
    CNI_ARGS: args,
  };
  const conf = {
    cniVersion: "1.0.0",
    name: "plexus",
    type: "plexus",
    delegates: [{ type: "ptp", name: "a" }],
    ...confExtra,
  };
  shimEnd.write(encodeRequest({ env, stdin: JSON.stringify(conf) }));
  const [{ exitCode, stdout }] = await Promise.all([done, served]);
  return { exitCode, json: stdout === "" ? {} : JSON.parse(stdout) };
}

const add = (): ReturnType<typeof call> => call("ADD");

/** What a runtime passes that describes its pods. */
function described(networks: string): object {
  const annotations = { "k8s.v1.cni.cncf.io/networks": networks };
  return { runtimeConfig: { "io.kubernetes.cri.pod-annotations": annotations } };
}

test("a failed ADD of a pod is reported to plexusd, if it runs", async () => {
  const conf = { ...described("red"), confDir: join(stateDir, "net.d") };
  const args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=1";
  const { json } = await call("ADD", { conf, args });
  const reported: unknown[] = [];
  const plexusd = createServer(async (request, response) => {
    const { method, url } = request;
    reported.push({ method, url, ...JSON.parse(await text(request)) });
    response.end();
  });
  plexusd.listen(join(stateDir, "admin-plexus.sock"));
  onTestFinished(() => void plexusd.close());
  await call("ADD", { conf, args });
  expect(reported).toEqual([
    expect.objectContaining({
      method: "POST",
      url: "/pods/shop/web/failed-add",
      message: json.msg,
    }),
  ]);
});

test.each([
  ["a network that no file has", false, 'shop/red": no net configurations found in'],
  ["plexusd's files", true, "has left no access to the API server"],
])("without an API, a described pod gets files' networks: not %s", async (_, isKept, problem) => {
  if (isKept) await keep("");
  const confDir = join(stateDir, "net.d");
  const conf = { ...described("red"), confDir };
  const args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=1";
  expect((await call("ADD", { conf, args })).json.msg).toContain(problem);
});

test("without an API and manifests, no pod lacks its status", async () => {
  const { publisher } = await openCallCluster(
    { command: "ADD", stdin: "{}" } as Call,
    clusterOptions(new CallLog(), join(stateDir, "none/kubeconfig")),
  );
  const pod = { namespace: "default", name: "web", uid: "u", annotations: {} };
  expect(await publisher.shown(pod, new AbortController().signal)).toBeUndefined();
});

test("without an API, manifests in the default directory count, if only root can change them [S-508]", async () => {
  const dir = join(stateDir, "manifests");
  await mkdir(dir);
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: podObject("web", { annotations: { "k8s.v1.cni.cncf.io/networks": "red" } }).metadata,
  };
  await writeFile(join(dir, "web.json"), JSON.stringify(pod));
  expect((await add()).json.msg).toContain("there is no NetworkAttachmentDefinition default/red");
  await chmod(join(dir, "web.json"), 0o666);
  await expect(add()).rejects.toThrow("web.json must belong to root");
});

test("a DEL opens each record of the other pods once, to find those of its pod", async () => {
  const api = await apiWithPod("");
  await keep("", await kubeconfigOf(api, "mine"));
  const store = await FileRecordStore.open(stateDir);
  const bootId = await readBootId();
  const others = Array.from({ length: 100 }, (_, i) => `other-${i}`);
  for (const containerId of ["c1", "earlier", ...others]) {
    const isOther = containerId.startsWith("other");
    const [name, state] = isOther
      ? [containerId, "attached" as const]
      : ["web", "planned" as const];
    const record: AttachmentRecord = {
      ...{
        ...sandbox,
        containerId,
        bootId,
        netns: "",
        pod: { namespace: "default", name, uid: "u" },
      },
      attachments: [{ ...attachment, state }],
    };
    await store.create(record, teardownPlan(record, 1000));
  }
  await store.flush();
  for (const id of ["c1", "earlier"]) await chmod(join(stateDir, `${id}@eth0.record`), 0o1600);
  const opened = observeOpenedRecords();
  expect(await call("DEL", { netns: "" })).toMatchObject({ exitCode: 0 });
  expect(opened.filter((name) => name.startsWith("other"))).toHaveLength(others.length);
  expect((await store.list()).records.every(({ pod }) => pod?.name !== "web")).toBe(true);
});

/** The records that are opened from now on, by name. */
function observeOpenedRecords(): string[] {
  const opened: string[] = [];
  const { openSync } = fs;
  vi.spyOn(fs, "openSync").mockImplementation((path, ...others) => {
    if (String(path).endsWith(".record")) opened.push(basename(String(path)));
    return openSync(path, ...others);
  });
  syncBuiltinESMExports();
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  return opened;
}

test("events name the node of the pod if the call does not know its node's name", async () => {
  const api = await apiWithPod("missing");
  await keep("", await kubeconfigOf(api, "mine"));
  expect(await add()).toMatchObject({ json: { msg: expect.stringContaining("missing") } });
  expect([...api.objects("events").values()]).toMatchObject([
    { source: { host: "node-1" }, reportingInstance: "node-1" },
  ]);
});

test.each([
  ["ip-10-0-0-1.example.com", "ip-10-0-0-1.example.com"],
  ["Not_A_Node", undefined],
  ["", undefined],
])("readNodeName() returns the name only if a Node can have it: %j", async (kept, name) => {
  const path = join(stateDir, "node-name");
  await writeFile(path, kept);
  expect(await readNodeName(path)).toBe(name);
  expect(await readNodeName(`${path}-none`)).toBeUndefined();
});

async function apiWithPod(networks: string): Promise<FakeApiServer> {
  const api = await FakeApiServer.start();
  onTestFinished(() => api[Symbol.asyncDispose]());
  api.put("pods", podObject("web", { annotations: { "k8s.v1.cni.cncf.io/networks": networks } }));
  return api;
}

async function kubeconfigOf(api: FakeApiServer, token: string): Promise<string> {
  return readFile(await api.kubeconfig({ token }), "utf8");
}

test("namespace isolation is enforced for a call that plexusd does not serve [S-301]", async () => {
  const api = await apiWithPod("other/red");
  const nad = nadObject("red");
  api.put("network-attachment-definitions", {
    ...nad,
    metadata: { ...(nad.metadata as JsonObject), namespace: "other" },
  });
  await keep("namespaceIsolation: true\n", await kubeconfigOf(api, "mine"));
  expect(await add()).toMatchObject({
    exitCode: 1,
    json: { code: 101, msg: expect.stringContaining("other/red") },
  });
});

test("attachmentPolicy is enforced for a call that plexusd does not serve [S-404]", async () => {
  const api = await apiWithPod("red");
  api.put(
    "network-attachment-definitions",
    nadObject("red", '{"type":"host-device","name":"red"}'),
  );
  await keep("attachmentPolicy: restricted\n", await kubeconfigOf(api, "mine"));
  expect(await add()).toMatchObject({
    exitCode: 1,
    json: { code: 101, msg: expect.stringContaining('plugins[0].type: "host-device" is not one') },
  });
});

test("a definition that plexusd has kept is used if its CRD is gone, and only then", async () => {
  const api = await apiWithPod("red");
  const nad = nadObject("red", '{"type":"multus","name":"red"}');
  const creationTimestamp = "2026-01-02T00:00:00Z";
  const metadata = { ...(nad.metadata as JsonObject), creationTimestamp };
  await writeFile(join(stateDir, keptDefinitionsName), JSON.stringify([{ ...nad, metadata }]));
  await keep("", await kubeconfigOf(api, "mine"));
  // The plugin is refused, once there is a definition.
  expect(await add()).toMatchObject({ exitCode: 1, json: { code: 7 } });
  const name = "network-attachment-definitions.k8s.cni.cncf.io";
  const created = { name, creationTimestamp: "2026-01-01T00:00:00Z" };
  api.put("customresourcedefinitions", { metadata: created });
  expect(await add()).toMatchObject({ exitCode: 1, json: { code: 100 } });
});

test.each<[string, string | undefined, string, number]>([
  ["no API credentials", undefined, "has left no access to the API server", 75],
  ["a kubeconfig that cannot be parsed", "users: [", "kubeconfig: it is not YAML", 1],
  ["an expired token", "expired", "the token expired", 75],
])("ADD with %s fails with code 11, or declines, and skips no networks", async (...row) => {
  const [, kept, problem, exitCode] = row;
  const api = await apiWithPod("red");
  api.token = "newer";
  await keep("", kept === "expired" ? await kubeconfigOf(api, kept) : kept);
  const msg = expect.stringContaining(problem);
  expect(await add()).toMatchObject({ exitCode, json: { code: 11, msg } });
});

test("a call fails on an invalid configuration instead of using the defaults", async () => {
  await keep("namespaceIsolatoin: true\n");
  await expect(add()).rejects.toThrow("namespaceIsolatoin: unknown key");
});

test.each<[string, (dir: string) => JsonObject, string]>([
  ["cannot execute a program", (dir) => ({ exec: execOf(join(dir, "program")) }), "was-run"],
  ["cannot send a file's content", (dir) => ({ tokenFile: join(dir, "secret") }), "was-sent"],
])("a kubeconfig that plexusd left %s [S-109]", async (_, userOf, trace) => {
  const api = await apiWithPod("red");
  await writeFile(join(stateDir, "secret"), "was-sent");
  await writeFile(join(stateDir, "program"), `#!/bin/sh\ntouch ${stateDir}/was-run\n`, {
    mode: 0o755,
  });
  await keep("", await readFile(await api.kubeconfig(userOf(stateDir)), "utf8"));
  const answer = await add().catch((error: Error) => ({ refused: error.message }));
  expect(JSON.stringify(answer)).toContain(
    "only a certificate or a token in the file can be used here",
  );
  expect([api.seen, (await readdir(stateDir)).includes(trace)]).toEqual([[], false]);
});

function execOf(command: string): JsonObject {
  const apiVersion = "client.authentication.k8s.io/v1";
  return { apiVersion, command, interactiveMode: "Never" };
}
