import { expect } from "vitest";
import { ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { scriptedTest as test } from "../../support/node/test.ts";
import { cniPluginDir } from "../../support/paths.ts";

const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

test("VERSION names every version, and answers in that of its input [R-0.2-01] [R-1.0-42]", async ({
  node,
}) => {
  const outcome = await node.call({ command: "VERSION", conf: { cniVersion: "0.4.0" } });
  expect(outcome).toMatchObject({ exitCode: 0, stderr: "" });
  expect(outcome.json).toEqual({ cniVersion: "0.4.0", supportedVersions: versions });
});

test("without a command the shim prints on stderr what it is", async ({ node }) => {
  const { stdout, stderr, exitCode } = await node.lab.try([node.shim], {
    env: {},
    extendEnv: false,
  });
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 0 });
  expect(stderr).toContain(`CNI protocol versions supported: ${versions.join(", ")}`);
});

test.for(versions)(
  "the result is in the version of the runtime's conf: %s [R-1.0-40] [N-7.1a]",
  async (cniVersion, { node, plugins }) => {
    const ips = '[{"address":"10.0.0.2/24","gateway":"10.0.0.1","interface":0}]';
    const stdout = `{"cniVersion":"1.0.0","interfaces":[{"name":"@IFNAME@","sandbox":"@NETNS@"}],"ips":${ips},"routes":[{"dst":"0.0.0.0/0"}]}`;
    await plugins.script("default-first", "ADD", { stdout });
    const pod = await node.pod(`v-${cniVersion.replaceAll(".", "-")}`);
    const conf = { ...node.conf(), cniVersion };
    const result = await pod.mustAdd({ conf });
    expect(result.cniVersion).toBe(cniVersion);
    if (cniVersion < "0.3.0")
      expect(result).toMatchObject({ ip4: { ip: "10.0.0.2/24", gateway: "10.0.0.1" } });
    else
      expect(result.ips).toMatchObject([
        { address: "10.0.0.2/24", gateway: "10.0.0.1", interface: 0 },
      ]);
    await pod.mustDel({ conf });
    await plugins.unscript("default-first", "ADD");
  },
);

const badEnvironments: [name: string, env: Record<string, string>, code: number, RegExp][] = [
  ["no container ID", { CNI_CONTAINERID: "" }, 4, /CNI_CONTAINERID/],
  ["no namespace", { CNI_NETNS: "" }, 4, /CNI_NETNS/],
  ["no interface name", { CNI_IFNAME: "" }, 4, /CNI_IFNAME/],
  ["a container ID that is a path", { CNI_CONTAINERID: "../x" }, 4, /container/i],
  ["an interface name with a slash", { CNI_IFNAME: "a/b" }, 4, /interface name/],
  ["an interface name that is too long", { CNI_IFNAME: "x".repeat(16) }, 4, /too long/],
  ["an unknown command", { CNI_COMMAND: "DANCE" }, 4, /unknown CNI_COMMAND: DANCE/],
  ["a namespace that does not exist", { CNI_NETNS: "/run/netns/nowhere" }, 8, /nowhere/],
  ["a namespace that is a plain file", { CNI_NETNS: "/etc/hostname" }, 8, /hostname/],
];

test.for(badEnvironments)(
  "ADD with %s is refused [R-0.4-36]",
  async ([, env, code, message], { node, plugins }) => {
    const pod = await node.newPod();
    const error = errorOf(await pod.add({ env }));
    expect(error.msg).toMatch(message);
    expect(error.code).toBe(code);
    expect(await plugins.order()).toEqual([]);
  },
);

const badConfs: [name: string, conf: string, code: number, message: RegExp][] = [
  ["empty", "", 6, /network config/],
  ["no JSON", "{", 6, /network config/],
  ["a list", "[]", 6, /must be an object/],
  ["without a name", '{"cniVersion":"1.0.0","type":"plexus"}', 7, /missing network name/],
  ["of an unknown version", conf({ cniVersion: "3.0.0" }), 1, /incompatible CNI versions/],
  ["without a default network", conf({}), 7, /clusterNetwork or delegates/],
  ["with a delegate that is Plexus", delegating({ type: "plexus" }), 7, /plexus/],
  ["with a delegate that is Multus", delegating({ type: "multus" }), 7, /multus/],
  ["with a delegate that is a path", delegating({ type: "../default-first" }), 7, /type/],
  ["with an unusable key", conf({ delegates: {} }), 7, /delegates/],
  [
    "with a namespaceIsolation of words",
    conf({ namespaceIsolation: "yes" }),
    7,
    /namespaceIsolation/,
  ],
];

function conf(keys: object): string {
  return JSON.stringify({ cniVersion: "1.0.0", name: "x", type: "plexus", ...keys });
}

function delegating(plugin: object): string {
  return conf({ delegates: [{ cniVersion: "1.0.0", name: "inner", plugins: [plugin] }] });
}

test.for(badConfs)(
  "a conf that is %s is refused [R-0.4-36]",
  async ([, conf, code, message], { node, plugins }) => {
    const pod = await node.newPod();
    const error = errorOf(await pod.add({ conf }));
    expect(error.msg).toMatch(message);
    expect(error.code).toBe(code);
    expect(await plugins.order()).toEqual([]);
  },
);

test("the sandbox may not be the plugin's own namespace", async ({ node, plugins }) => {
  const pod = await node.pod("own");
  const error = errorOf(await pod.add({ env: { CNI_NETNS: "/proc/self/ns/net" } }));
  expect(error).toMatchObject({ code: 8, msg: expect.stringContaining("should not be the same") });
  expect(await plugins.order()).toEqual([]);
});

test("a pod that is not there, or has another UID, is code 11 [R-0.4-36]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("uid", { uid: "new" });
  expect(errorOf(await pod.add({ pod: "default/uid@old" }))).toMatchObject({
    code: 11,
    msg: expect.stringContaining("old"),
  });
  expect(errorOf(await pod.add({ pod: "default/nobody" })).code).toBe(11);
  expect(await plugins.order()).toEqual([]);
});

test("STATUS asks the default network's plugins of 1.1.0 and says their code [R-1.1-22]", async ({
  node,
  plugins,
}) => {
  const network = { cniVersion: "1.1.0", name: "default", plugins: [{ type: "default-first" }] };
  const conf = { ...node.conf({ delegates: [network] }), cniVersion: "1.1.0" };
  expect(await node.call({ command: "STATUS", conf })).toMatchObject({ exitCode: 0, stdout: "" });
  await plugins.script("default-first", "STATUS", {
    stdout: '{"code":51,"msg":"half up"}',
    exit: 1,
  });
  expect(errorOf(await node.call({ command: "STATUS", conf }))).toMatchObject({
    code: 51,
    msg: expect.stringContaining("half up"),
  });
  expect(await plugins.order()).toEqual(["STATUS default-first/", "STATUS default-first/"]);
});

test("STATUS over an older default network succeeds when its plugins answer VERSION [R-1.1-22]", async ({
  node,
}) => {
  const [cniPath, conf] = [
    node.cniPath,
    node.conf({ cniVersion: "1.1.0", delegates: [ptp("older", 71)] }),
  ];
  try {
    node.cniPath = [...cniPath, cniPluginDir()];
    expect(await node.call({ command: "STATUS", conf })).toMatchObject({ exitCode: 0, stdout: "" });
    node.cniPath = ["/nonexistent"];
    expect(errorOf(await node.call({ command: "STATUS", conf }))).toMatchObject({ code: 50 });
  } finally {
    node.cniPath = cniPath;
  }
});
