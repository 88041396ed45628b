import { expect, test } from "vitest";
import { CniErrorCode } from "#cni/error.ts";
import type { SettledPod } from "#daemon/pods/hot-plug.ts";
import { hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import type { JsonObject } from "#lib/json.ts";
import { serveController } from "./controller-request.ts";

interface Request {
  readonly command?: string;
  readonly ifName?: string;
  readonly network?: string;
  readonly uid?: string;
}

/** What multus-dynamic-networks-controller sends: the ID is a container's, not the sandbox's. */
function requestOf({ command, ifName, network, uid }: Request): JsonObject {
  return {
    env: {
      CNI_COMMAND: command ?? "ADD",
      CNI_CONTAINERID: "a-container",
      CNI_NETNS: "/proc/4711/ns/net",
      CNI_IFNAME: ifName ?? "net2",
      CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=${uid ?? "uid-1"}`,
    },
    config: Buffer.from(JSON.stringify({ name: network ?? "net-b", type: "x" })).toString("base64"),
    interfaceAttributes: { ips: ["10.0.0.9/24"], mac: "", "cni-args": null },
  };
}

/** A pod attached to `a` whose annotation becomes `annotation` before the controller's request. */
async function makePod(annotation: string) {
  const pod = await hotPlugLab("a");
  let attempts = 0;
  const settle = async (): Promise<SettledPod> => {
    attempts++;
    return { ...(await pod.edit(annotation)), pod: pod.pod() };
  };
  const ask = (request: Request | string) => {
    const body = typeof request === "string" ? request : JSON.stringify(requestOf(request));
    return serveController(body, { hotPlug: { settle }, records: pod.lab.records });
  };
  return { pod, ask, attempts: () => attempts };
}

test("an ADD attaches what the annotation requests, and answers with the result, once [H-10] [H-43]", async () => {
  const { pod, ask } = await makePod("a,b");
  const answer = await ask({});
  expect(answer).toMatchObject({
    Result: { cniVersion: "1.0.0", interfaces: [{ name: "net2" }], ips: [{}] },
  });
  expect(await ask({})).toEqual(answer);
  expect(await ask({ ifName: "" })).toEqual(answer);
  expect(await ask({ command: "CHECK" })).toBeUndefined();
  expect(pod.lab.plugins.log()).toEqual(["macvlan ADD net2"]);
  expect(pod.shown()).toEqual(["eth0 default-net", "net1 default/a", "net2 default/b"]);
});

test("what was plugged is recorded, and the sandbox's DEL detaches it [H-12] [H-43]", async () => {
  const { pod, ask } = await makePod("a,b");
  await ask({});
  await pod.lab.del({ pod: "default/web" });
  expect(pod.lab.plugins.log("DEL")).toEqual([
    "macvlan DEL net2",
    "bridge DEL net1",
    "ptp DEL eth0",
  ]);
  expect(pod.lab.records.keys).toEqual([]);
});

test("a DEL detaches what the annotation no longer requests, and may be repeated [H-10]", async () => {
  const { pod, ask } = await makePod("");
  const request = { command: "DEL", ifName: "net1", network: "net-a" };
  expect([await ask(request), await ask(request)]).toEqual([undefined, undefined]);
  expect(pod.lab.plugins.log()).toEqual(["bridge DEL net1"]);
});

test("a swap is an ADD of the new and a DEL of the old network of an interface [H-9.2]", async () => {
  const { ask } = await makePod('[{"name":"b","interface":"net1"}]');
  expect(await ask({ ifName: "net1" })).toMatchObject({ Result: {} });
  expect(await ask({ command: "DEL", ifName: "net1", network: "net-a" })).toBeUndefined();
});

test("an ADD of an element that names the interface of its network answers with the attachment", async () => {
  const { pod, ask } = await makePod("a@net1");
  expect(await ask({ ifName: "net1", network: "net-a" })).toMatchObject({ Result: {} });
  expect(pod.lab.plugins.log()).toEqual([]);
});

test("an ADD does not answer with the attachment that could not be replaced", async () => {
  const { pod, ask } = await makePod('[{"name":"a","ips":["10.0.0.77/24"]}]');
  const request = { ifName: "net1", network: "net-a" };
  // The definition declares no capability for addresses.
  await expect(ask(request)).rejects.toThrow(
    /net-a \(net1\).* is not attached as requested: .*ips/,
  );
  expect(pod.shown()).toEqual(["eth0 default-net", "net1 default/a"]);
});

test.each<{ why: string; annotation: string; request: Request; message: RegExp }>([
  {
    why: "an ADD that the annotation does not request",
    annotation: "a",
    request: {},
    message: /net-b \(net2\) of pod default\/web is not attached: .*annotation/,
  },
  {
    why: "a DEL of what it requests",
    annotation: "a",
    request: { command: "DEL", ifName: "net1", network: "net-a" },
    message: /net-a \(net1\).* is still attached/,
  },
  {
    why: "another network of the interface",
    annotation: "a,b",
    request: { network: "net-c" },
    message: /net-c \(net2\).* is not attached/,
  },
  {
    why: "another pod of that name",
    annotation: "a,b",
    request: { uid: "uid-2" },
    message: /is not attached/,
  },
  {
    why: "the default network",
    annotation: "a",
    request: { ifName: "eth0", network: "default-net" },
    message: /is not attached/,
  },
  {
    why: "an annotation that cannot be carried out",
    annotation: "a,nope",
    request: {},
    message: /default\/nope/,
  },
])("$why is refused [H-43]", async ({ annotation, request, message }) => {
  const { ask } = await makePod(annotation);
  await expect(ask(request)).rejects.toThrow(message);
});

const valid = requestOf({});
const env = valid.env as JsonObject;

test.each<[string, RegExp]>([
  ["", /not valid JSON/],
  ["[]", /object/],
  [JSON.stringify({ ...valid, more: 1 }), /more.*unknown key/],
  [JSON.stringify({ ...valid, env: { ...env, CNI_COMMAND: "GC" } }), /env\.CNI_COMMAND.*GC/],
  [JSON.stringify({ ...valid, env: { ...env, CNI_IFNAME: "a".repeat(16) } }), /env\.CNI_IFNAME/],
  [JSON.stringify({ ...valid, env: { ...env, CNI_ARGS: "K8S_POD_NAME" } }), /CNI_ARGS/],
  [
    JSON.stringify({ ...valid, env: { ...env, CNI_ARGS: "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b" } }),
    /K8S_POD_UID/,
  ],
  [JSON.stringify({ ...valid, config: "%" }), /config/],
  [JSON.stringify({ ...valid, config: btoa("[1]") }), /config.*object/],
  [JSON.stringify({ ...valid, config: btoa("{}") }), /config: name/],
  [JSON.stringify({ ...valid, interfaceAttributes: 1 }), /interfaceAttributes/],
])(
  "the invalid request %s changes nothing, and the error names the member",
  async (body, message) => {
    const { ask, attempts } = await makePod("a,b");
    const error = await ask(body).catch((each: unknown) => each);
    expect(error).toMatchObject({ message: expect.stringMatching(message) });
    expect([CniErrorCode.DecodingFailure, 100, 4]).toContain((error as { code: number }).code);
    expect(attempts()).toBe(0);
  },
);
