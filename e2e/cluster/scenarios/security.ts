import { describe, expect, test } from "vitest";
import { home, statusKey } from "./target/objects.ts";
import { nodeInPlexusd, plexusPod } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import type { Target } from "./target/target.ts";

const account = "system:serviceaccount:kube-system:plexusd";
const fakeNode = "plexus-e2e-no-node";

/** What the API server answers. */
interface Answer {
  readonly status: number;
  readonly body: {
    readonly message?: string;
    readonly metadata?: { readonly name?: string };
    readonly status?: { readonly allowed?: boolean; readonly userInfo?: object };
  };
}

/** One request to the API server. */
export interface Request {
  readonly method: "POST" | "PATCH" | "PUT";
  readonly path: string;
  readonly body: object;
  /** @default the token that the kubelet mounted into plexusd's container */
  readonly token?: string;
}

/** A permission to ask about. */
type Access = Readonly<
  Record<"verb" | "resource", string> &
    Partial<Record<"group" | "subresource" | "namespace" | "name", string>>
>;

const nads = { group: "k8s.cni.cncf.io", resource: "network-attachment-definitions" };

const crds = { group: "apiextensions.k8s.io", resource: "customresourcedefinitions" };
const ownCrd = { ...crds, name: "network-attachment-definitions.k8s.cni.cncf.io" };

const daemonSets = { group: "apps", resource: "daemonsets", namespace: "kube-system" };
const accounts = { resource: "serviceaccounts", namespace: "kube-system" };
const ownDaemonSet = { ...daemonSets, name: "plexus" };

const allowed: readonly Access[] = [
  { verb: "list", resource: "pods" },
  { verb: "watch", ...nads },
  { verb: "patch", resource: "pods", subresource: "status" },
  { verb: "create", resource: "events" },
  { verb: "get", resource: "resourceclaims", group: "resource.k8s.io" },
  { verb: "list", resource: "resourceslices", group: "resource.k8s.io" },
  { verb: "get", ...ownCrd },
  { verb: "list", resource: "servicecidrs", group: "networking.k8s.io" },
  { verb: "get", resource: "nodes" },
  { verb: "list", resource: "namespaces" },
  { verb: "get", ...ownDaemonSet },
  { verb: "watch", ...accounts, name: "plexusd" },
];

const refused: readonly Access[] = [
  { verb: "patch", resource: "pods" },
  { verb: "update", resource: "pods", subresource: "status" },
  { verb: "create", resource: "pods" },
  { verb: "delete", resource: "pods" },
  { verb: "create", resource: "pods", subresource: "exec" },
  { verb: "get", resource: "secrets" },
  { verb: "list", resource: "resourceclaims", group: "resource.k8s.io" },
  { verb: "update", resource: "resourceclaims", subresource: "status", group: "resource.k8s.io" },
  { verb: "patch", resource: "resourceslices", group: "resource.k8s.io" },
  { verb: "get", resource: "configmaps" },
  { verb: "list", resource: "nodes" },
  { verb: "patch", resource: "namespaces" },
  { verb: "patch", ...nads },
  { verb: "list", resource: "events" },
  { verb: "get", ...crds, name: "pods.example.com" },
  { verb: "patch", ...ownCrd },
  { verb: "get", ...daemonSets, name: "plexus-agent" },
  { verb: "list", ...daemonSets },
  { verb: "watch", ...accounts },
  { verb: "patch", ...ownDaemonSet },
  { verb: "delete", ...ownDaemonSet },
];

/** Checks what plexusd's credential allows. Every request is sent from plexusd's container. */
export function securityScenarios(scene: () => Scene): void {
  describe("plexusd's token", () => {
    test("belongs to its ServiceAccount, and is bound to the pod and the node [S-204]", async () => {
      const { target } = scene();
      const { body } = await ask(target, review("SelfSubjectReview", "authentication"));
      expect(body.status?.userInfo).toMatchObject({
        username: account,
        extra: {
          "authentication.kubernetes.io/node-name": [target.nodeName],
          "authentication.kubernetes.io/pod-name": [(await plexusPod(target)).metadata.name],
        },
      });
    });

    test("may read pods, networks, resource claims and its DaemonSet, patch the status of pods and create events [S-200] [S-210] [S-211]", async () => {
      expect(await answers(scene().target, allowed)).toEqual(allowed.map(() => true));
    });

    test("may not read or change anything else, such as resource claims [S-201] [S-210]", async () => {
      expect(await answers(scene().target, refused)).toEqual(refused.map(() => false));
    });

    test("can patch only its own annotation, through the pod's status [S-202] [S-205]", async () => {
      const { target } = scene();
      await scene().startPod("mine");
      const mine = patchStatus("mine", annotation(statusKey, "[]"));
      expect((await ask(target, mine)).status).toBe(200);
      expect((await scene().pod("mine")).metadata.annotations?.[statusKey]).toBe("[]");
      const foreign = annotation("k8s.v1.cni.cncf.io/networks", "blue");
      const path = `/api/v1/namespaces/${home}/pods/mine`;
      await expectRefused(target, [
        [patchStatus("mine", annotation("example.com/other", "x")), /no annotation but its own/],
        [patchStatus("mine", foreign), /no annotation but its own/],
        [patchStatus("mine", { metadata: { labels: { a: "b" } } }), /annotations only/],
        [patchStatus("mine", { status: { phase: "Succeeded" } }), /annotations only/],
        [{ method: "PATCH", path, body: mine.body }, /cannot patch resource "pods"/],
      ]);
    });

    test("cannot patch a pod of another node, and can write nothing if bound to no node [S-203]", async () => {
      const { target } = scene();
      await using _pod = await createForeignPod(scene());
      const token = await target.kubectl("create", "token", "plexusd", "--namespace=kube-system");
      const foreign = patchStatus("foreign", annotation(statusKey, "[]"));
      const event = createEvent("unbound", {});
      const of = `on a pod of node "${fakeNode}"`;
      await expectRefused(target, [
        [foreign, `plexusd of node "${target.nodeName}" may not write ${of}`],
        [{ ...foreign, token }, `plexusd of node "" may not write ${of}`],
        [{ ...event, token }, "plexusd of no node may write no event"],
      ]);
    });

    test("can create and patch only events reported by Plexus [S-206]", async () => {
      const { target } = scene();
      const own = await ask(target, createEvent("own", {}));
      const name = own.body.metadata?.name ?? "";
      const patched = await ask(target, patchEvent(name, { count: 2 }));
      expect([own.status, patched.status]).toEqual([201, 200]);
      const kubelet = { reportingComponent: "kubelet", source: { component: "kubelet" } };
      const theirs = createEvent("theirs", kubelet).body as { metadata: { name: string } };
      await target.apply(theirs);
      await expectRefused(target, [
        [createEvent("whole", kubelet), /in its own name only/],
        [createEvent("half", { source: kubelet.source }), /in its own name only/],
        [createEvent("other", { reportingComponent: "kubelet" }), /in its own name only/],
        [patchEvent(name, kubelet), /in its own name only/],
        [patchEvent(theirs.metadata.name, ownEvent), /its own events only/],
      ]);
    });
  });
}

/** Expects the API server to reject these requests of plexusd with these reasons. */
export async function expectRefused(
  target: Target,
  requests: readonly (readonly [Request, RegExp | string])[],
): Promise<void> {
  for (const [request, reason] of requests) {
    const { status, body } = await ask(target, request);
    expect([status, body.message]).toEqual([403, expect.stringMatching(reason)]);
  }
}

function annotation(key: string, value: string): object {
  return { metadata: { annotations: { [key]: value } } };
}

function patchStatus(pod: string, body: object): Request {
  return { method: "PATCH", path: `/api/v1/namespaces/${home}/pods/${pod}/status`, body };
}

const ownEvent = { reportingComponent: "plexus", source: { component: "plexus" } };

function createEvent(suffix: string, changes: object): Request {
  const type = { apiVersion: "v1", kind: "Event" };
  const involvedObject = { apiVersion: "v1", kind: "Pod", namespace: home, name: "any" };
  const metadata = { name: `any.${suffix}.${Date.now()}`, namespace: home };
  const body = { ...type, metadata, involvedObject, ...ownEvent, ...changes };
  return { method: "POST", path: `/api/v1/namespaces/${home}/events`, body };
}

function patchEvent(name: string, body: object): Request {
  return { method: "PATCH", path: `/api/v1/namespaces/${home}/events/${name}`, body };
}

function review(kind: string, group: string, spec?: object): Request {
  const apiVersion = `${group}.k8s.io/v1`;
  const path = `/apis/${apiVersion}/${kind.toLowerCase()}s`;
  return { method: "POST", path, body: { apiVersion, kind, ...(spec && { spec }) } };
}

/** Returns whether plexusd has these permissions in a namespace of pods. */
async function answers(target: Target, questions: readonly Access[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const question of questions) {
    const spec = { resourceAttributes: { namespace: home, ...question } };
    const { body } = await ask(target, review("SelfSubjectAccessReview", "authorization", spec));
    found.push(body.status?.allowed);
  }
  return found;
}

const program = `
const { readFileSync } = require("node:fs");
const directory = "/var/run/secrets/kubernetes.io/serviceaccount";
const read = (name) => readFileSync(directory + "/" + name, "utf8");
const { method, path, body, token = read("token") } = JSON.parse(process.argv[1]);
const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
const headers = { authorization: "Bearer " + token, "content-type": type };
const options = { host, port, path, method, headers, ca: read("ca.crt") };
require("node:https").request(options, async (response) => {
  const chunks = await response.toArray();
  const text = Buffer.concat(chunks).toString();
  console.log(JSON.stringify({ status: response.statusCode, body: JSON.parse(text) }));
}).end(JSON.stringify(body));
`;

/** Sends a request from plexusd's container. kubectl would read what it patches, which plexusd may not. */
async function ask(target: Target, request: Request): Promise<Answer> {
  const args = ["--eval", program, "--", JSON.stringify(request)];
  return JSON.parse(await nodeInPlexusd(target, ...args)) as Answer;
}

/** A pod that is bound to a Node without a kubelet. Both are deleted at the end of the scope. */
async function createForeignPod(scene: Scene): Promise<AsyncDisposable> {
  const { target } = scene;
  await target.apply({ apiVersion: "v1", kind: "Node", metadata: { name: fakeNode } });
  const spec = { nodeName: fakeNode, nodeSelector: {}, tolerations: [{ operator: "Exists" }] };
  await scene.createPod("foreign", { spec });
  return {
    async [Symbol.asyncDispose]() {
      const force = ["--force", "--grace-period=0", "--ignore-not-found"];
      await scene.kubectl("delete", "pod", "foreign", ...force);
      await target.kubectl("delete", "node", fakeNode);
    },
  };
}
