import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseNetworkSelections } from "#npwg/selection/selection.ts";
import {
  type Cluster,
  startCluster,
  waitForServiceAccount,
} from "../cluster/kubernetes/cluster.ts";
import { repositoryRoot } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { annotationRows } from "./annotations.ts";
import { Api, type ApiAnswer, type ApiRequest } from "./api.ts";
import { configText, definitionRows } from "./definitions.ts";
import {
  bindPod,
  changeDefinition,
  changePod,
  createDefinition,
  createPod,
  createWorkload,
  defaultNetworkKey,
  deleteDefinition,
  kubelet,
  networksKey,
  ownNamespace,
  plexusd,
  statusKey,
  tenant,
} from "./requests.ts";

const components = ["definitions", "pods", "status", "in-use"];
const policies = components.map((name) => `plexus-${name}`);
const macvlan = '{"cniVersion": "1.0.0", "type": "macvlan"}';
const hostDevice = '{"cniVersion": "1.0.0", "type": "host-device", "device": "eth0"}';
const inUse = { "plexus.dev/in-use": "true" };
const status = { [statusKey]: "[]" };
const broken = { [networksKey]: "[null]" };

let cluster: Cluster;
let api: Api;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0 });
  api = await Api.open(cluster);
  await cluster.kubectl("apply", "--filename", join(repositoryRoot, "crds"));
  await cluster.kubectl("wait", "--for=condition=established", "crd", "--all");
  for (const name of ["node-a", "node-b"])
    await cluster.apply({ apiVersion: "v1", kind: "Node", metadata: { name } });
  for (const name of [tenant, "leaving"])
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
  await waitForServiceAccount(cluster, tenant);
  for (const request of [
    createDefinition(macvlan, { name: "unused" }),
    createDefinition(macvlan, { name: "used", labels: inUse }),
    createDefinition(hostDevice, { name: "older" }),
    createDefinition(macvlan, { namespace: "leaving", labels: inUse }),
    createPod({ [networksKey]: "a", ...status }, { name: "running", nodeName: "node-a" }),
    createPod(broken, { name: "older", nodeName: "node-a" }),
    createPod({}, { name: "pending" }),
  ])
    await expectAccepted({ ...request, isDryRun: false });
});

afterAll(async () => {
  api?.close();
  await cluster?.[Symbol.asyncDispose]();
});

/** Sends a request that must be accepted. */
async function expectAccepted(request: ApiRequest): Promise<ApiAnswer> {
  const answer = await api.send(request);
  expect(answer.message, JSON.stringify(request)).toBe("");
  return answer;
}

/** Sends a request that a policy must deny with this in its message. */
async function expectDenied(request: ApiRequest, message: string): Promise<void> {
  const answer = await api.send(request);
  expect(answer.message, JSON.stringify(request)).toContain(message);
  expect(answer.message).toContain("denied request");
}

const reserved = "written by plexusd only";

/** What only the policies deny, each with their message. */
const forbidden: readonly (readonly [what: string, request: ApiRequest, message: string])[] = [
  ["create a definition of any plugin", createDefinition(hostDevice), "each type must be one of"],
  [
    "have a definition use any plugin",
    changeDefinition("unused", { spec: { config: hostDevice } }),
    "each type must be one of",
  ],
  ["delete a definition in use", deleteDefinition("used"), "remove the label plexus.dev/in-use"],
  ["create a pod with a broken annotation", createPod(broken), "not an object with a name"],
  ["break a pod's annotation", changePod("running", broken), "not an object with a name"],
  [
    "break a pod's annotation through its status",
    changePod("running", broken, { subresource: "/status" }),
    "not an object with a name",
  ],
  [
    "break a pod's annotation as it is bound",
    bindPod("pending", broken),
    "not an object with a name",
  ],
  ["create a pod with a network-status", createPod(status), reserved],
  ["write a pod's network-status", changePod("running", { [statusKey]: "[{}]" }), reserved],
  ["remove a pod's network-status", changePod("running", { [statusKey]: null }), reserved],
  [
    "write a pod's network-status through its status",
    changePod("running", { [statusKey]: "[{}]" }, { subresource: "/status" }),
    reserved,
  ],
  ["write a pod's network-status as it is bound", bindPod("pending", status), reserved],
];

test.each(forbidden)("without the policies, an author may %s", async (_what, request) => {
  await expectAccepted(request);
});

/** The median of ten answers. */
async function medianMs(request: ApiRequest): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < 10; n++) times.push((await expectAccepted(request)).milliseconds);
  return times.toSorted((a, b) => a - b)[5] ?? Number.NaN;
}

const element = { name: "net-0", namespace: tenant, interface: "net0", ips: ["10.0.0.1/24"] };
const measured: Readonly<Record<string, ApiRequest>> = {
  "a pod without networks": createPod({}),
  "a pod with two networks": createPod({ [networksKey]: "a, b" }),
  "a pod with 32 networks in JSON": createPod({
    [networksKey]: JSON.stringify(Array(32).fill(element)),
  }),
  "a definition": createDefinition(macvlan),
};
const withoutPolicies: Record<string, number> = {};

test("the time of requests without the policies is measured", async () => {
  for (const [what, request] of Object.entries(measured))
    withoutPolicies[what] = await medianMs(request);
});

describe("with the policies", () => {
  beforeAll(async () => {
    const files = ["base", ...components.map((name) => `components/admission-${name}`)];
    for (const folder of files)
      await cluster.kubectl(
        "apply",
        `--filename=${join(repositoryRoot, "deploy", folder, "admission-policy.yaml")}`,
      );
    const probes = [
      ...forbidden.map(([, request]) => request),
      { ...changePod("running", {}, { subresource: "/status" }), user: plexusd("node-b") },
    ];
    await waitUntil("the policies are in effect", async () => {
      const answers = await Promise.all(probes.map((request) => api.send(request)));
      return answers.every(({ message }) => message !== "");
    });
  });

  test("the API server compiles every expression, for the types that it knows", async () => {
    const checked = async () => {
      const get = cluster.get<{ items: Checked[] }>("validatingadmissionpolicies");
      const own = (await get).items.filter(({ metadata }) => policies.includes(metadata.name));
      return own.every((each) => each.status?.typeChecking !== undefined) && own;
    };
    const found = await waitUntil("the types are checked", checked);
    expect(found.map(({ metadata }) => metadata.name).toSorted()).toEqual(policies.toSorted());
    expect(found.flatMap((each) => each.status?.typeChecking?.expressionWarnings ?? [])).toEqual(
      [],
    );
  });

  test.each(forbidden)(
    "no author may %s [S-700] [S-701] [S-702] [S-703] [S-704] [S-705]",
    async (_what, request, message) => {
      await expectDenied(request, message);
    },
  );

  test.each(definitionRows)("a definition with $what [S-700]", async (row) => {
    for (const namespace of [tenant, ownNamespace]) {
      const refused = namespace === ownNamespace && row.isFree ? undefined : row.refused;
      const request = createDefinition(configText(row), { namespace });
      if (refused === undefined) await expectAccepted(request);
      else await expectDenied(request, refused);
    }
  });

  test("a definition from before keeps its configuration, and other things of it can change", async () => {
    await expectAccepted(changeDefinition("older", { metadata: { labels: inUse } }));
    await expectDenied(
      changeDefinition("older", { spec: { config: `${hostDevice} ` } }),
      "each type",
    );
    await expectAccepted(changeDefinition("older", { spec: { config: macvlan } }));
  });

  test("a definition in use can be deleted without its label, and with its namespace", async () => {
    await expectAccepted(deleteDefinition("unused"));
    const owner = { name: "system:serviceaccount:kube-system:generic-garbage-collector" };
    await expectAccepted({ ...deleteDefinition("used"), user: owner });
    await expectDenied(deleteDefinition("new", "leaving"), "the definition is in use");
    await cluster.kubectl("delete", "namespace", "leaving", "--timeout=50s");
  });

  test.each(annotationRows)("an annotation with $what [S-703]", async ({ text, refused }) => {
    const request = createPod({ [networksKey]: text });
    if (refused === undefined) await expectAccepted(request);
    else await expectDenied(request, `${networksKey}, ${defaultNetworkKey}: ${refused}`);
  });

  test.each([
    ["a", undefined],
    ['[{"name": "a", "namespace": "b"}]', undefined],
    ["", undefined],
    [`[{"name": "a", "cni-args": {"x": ${"[".repeat(20)}${"]".repeat(20)}}}]`, undefined],
    ["a,b", "must name exactly one network"],
    ['[{"name": "a"}, {"name": "b"}]', "must name exactly one network"],
    ["[]", "must name exactly one network"],
    ["[null]", "not an object with a name"],
    ["a b", "an item is not"],
  ])("a default network %j", async (text, refused) => {
    const annotations = { [defaultNetworkKey]: text };
    for (const request of [createPod(annotations), changePod("running", annotations)])
      if (refused === undefined) await expectAccepted(request);
      else await expectDenied(request, refused);
  });

  test.each(["Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"])(
    "a broken annotation in the template of a %s [S-703]",
    async (kind) => {
      await expectAccepted(createWorkload(kind, { [networksKey]: "a" }));
      await expectDenied(createWorkload(kind, broken), "not an object with a name");
    },
  );

  test("a broken annotation from before stays, and hinders no other change", async () => {
    await expectAccepted(changePod("older", { other: "x" }));
    const phase = { status: { phase: "Running" } };
    const running = changePod("older", {}, { subresource: "/status", body: phase });
    await expectAccepted({ ...running, user: kubelet });
    await expectAccepted(changePod("older", { [networksKey]: "a" }));
    await expectAccepted(changePod("older", { [networksKey]: null }));
    await expectDenied(changePod("older", { [networksKey]: "[nul]" }), "not a JSON list");
  });

  const onStatus = { subresource: "/status" };
  const written = changePod("running", { [statusKey]: "[{}]" }, onStatus);
  test.each<[who: string, request: ApiRequest, message: string | undefined]>([
    ["plexusd of the pod's node", { ...written, user: plexusd("node-a") }, undefined],
    ["plexusd of another node", { ...written, user: plexusd("node-b") }, "may not write on a pod"],
    ["plexusd of no node", { ...written, user: plexusd() }, "plexusd-own-pods"],
    ["the kubelet", { ...written, user: kubelet }, reserved],
    [
      "an account of the same name",
      { ...written, user: { name: "system:serviceaccount:tenant:plexusd" } },
      reserved,
    ],
    [
      "the administrator",
      { method: "PATCH", path: written.path, body: written.body as object },
      reserved,
    ],
    ["an author who writes the same", changePod("running", status), undefined],
    ["an author who writes something else", changePod("running", { other: "x" }), undefined],
  ])("network-status, written by %s [S-705]", async (_who, request, message) => {
    if (message === undefined) await expectAccepted(request);
    else await expectDenied(request, message);
  });

  test("no annotation that the engine accepts is denied: those of the examples, and random ones", async () => {
    const isValid = (text: string): boolean => {
      try {
        parseNetworkSelections(text, { podNamespace: tenant });
        return true;
      } catch {
        return false;
      }
    };
    const valid = [...exampleAnnotations(), ...fc.sample(annotation, { seed: 1, numRuns: 600 })];
    const accepted = valid.filter(isValid);
    expect(accepted.length).toBeGreaterThan(300);
    await Promise.all(accepted.map((text) => expectAccepted(createPod({ [networksKey]: text }))));
  });

  test("the time of requests with the policies is measured", async () => {
    for (const [what, request] of Object.entries(measured)) {
      const [before, after] = [withoutPolicies[what] ?? Number.NaN, await medianMs(request)];
      console.log(`${what}: ${before.toFixed(1)} ms, with the policies ${after.toFixed(1)} ms`);
    }
  });
});

interface Checked {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly typeChecking?: { readonly expressionWarnings?: readonly object[] } };
}

/** Every networks annotation of the examples. */
function exampleAnnotations(): string[] {
  const folder = join(repositoryRoot, "examples");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files
    .filter((name) => name.endsWith(".yaml"))
    .flatMap((name) => parseAllDocuments(readFileSync(join(folder, name), "utf8")))
    .flatMap((document) => valuesOf(document.toJS(), networksKey));
}

function valuesOf(value: unknown, key: string): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) =>
    name === key && typeof each === "string" ? [each] : valuesOf(each, key),
  );
}

const space = fc.constantFrom("", " ", "\n", "\t ");
const name = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?$/);
const value = fc.oneof(fc.jsonValue(), fc.string({ unit: "binary" }));
const selection = fc
  .tuple(name, fc.dictionary(fc.string(), value), fc.boolean())
  .map(([first, rest, isLast]) =>
    isLast ? { ...rest, "cni-args": { name: rest }, Name: first } : { name: first, ...rest },
  );
const spaced = fc
  .tuple(fc.array(selection, { maxLength: 4 }), space, fc.constantFrom(0, 1, 2))
  .map(([list, before, indent]) => before + JSON.stringify(list, undefined, indent) + before);
const textItem = fc
  .tuple(name, fc.option(name), fc.option(fc.stringMatching(/^[a-zé]{1,8}$/)), space)
  .map(([network, namespace, ifName, s]) =>
    [s, namespace ?? "", namespace && `${s}/${s}`, network, ifName && `${s}@${s}${ifName}`, s].join(
      "",
    ),
  );
const annotation = fc.oneof(
  spaced,
  fc.array(textItem, { maxLength: 4 }).map((items) => items.join(",")),
);
