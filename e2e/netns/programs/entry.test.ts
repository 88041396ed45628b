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

const badEnvironments: {
  name: string;
  env: Record<string, string>;
  code: number;
  message: RegExp;
}[] = [
  { name: "no container ID", env: { CNI_CONTAINERID: "" }, code: 4, message: /CNI_CONTAINERID/ },
  { name: "no namespace", env: { CNI_NETNS: "" }, code: 4, message: /CNI_NETNS/ },
  { name: "no interface name", env: { CNI_IFNAME: "" }, code: 4, message: /CNI_IFNAME/ },
  {
    name: "a container ID that is a path",
    env: { CNI_CONTAINERID: "../x" },
    code: 4,
    message: /container/i,
  },
  {
    name: "an interface name with a slash",
    env: { CNI_IFNAME: "a/b" },
    code: 4,
    message: /interface name/,
  },
  {
    name: "an interface name that is too long",
    env: { CNI_IFNAME: "x".repeat(16) },
    code: 4,
    message: /too long/,
  },
  {
    name: "an unknown command",
    env: { CNI_COMMAND: "DANCE" },
    code: 4,
    message: /unknown CNI_COMMAND: DANCE/,
  },
  {
    name: "a namespace that does not exist",
    env: { CNI_NETNS: "/run/netns/nowhere" },
    code: 8,
    message: /nowhere/,
  },
  {
    name: "a namespace that is a plain file",
    env: { CNI_NETNS: "/etc/hostname" },
    code: 8,
    message: /hostname/,
  },
];

test.for(badEnvironments)(
  "ADD with $name is refused [R-0.4-36]",
  async ({ env, code, message }, { node, plugins }) => {
    const pod = await node.newPod();
    const error = errorOf(await pod.add({ env }));
    expect(error.msg).toMatch(message);
    expect(error.code).toBe(code);
    expect(await plugins.order()).toEqual([]);
  },
);

const badConfs: { name: string; conf: string; code: number; message: RegExp }[] = [
  { name: "empty", conf: "", code: 6, message: /network config/ },
  { name: "no JSON", conf: "{", code: 6, message: /network config/ },
  { name: "a list", conf: "[]", code: 6, message: /must be an object/ },
  {
    name: "without a name",
    conf: '{"cniVersion":"1.0.0","type":"plexus"}',
    code: 7,
    message: /missing network name/,
  },
  {
    name: "of an unknown version",
    conf: '{"cniVersion":"3.0.0","name":"x","type":"plexus"}',
    code: 1,
    message: /incompatible CNI versions/,
  },
  {
    name: "without a default network",
    conf: '{"cniVersion":"1.0.0","name":"x","type":"plexus"}',
    code: 7,
    message: /clusterNetwork or delegates/,
  },
  {
    name: "with a delegate that is Plexus",
    conf: delegating({ type: "plexus" }),
    code: 7,
    message: /plexus/,
  },
  {
    name: "with a delegate that is Multus",
    conf: delegating({ type: "multus" }),
    code: 7,
    message: /multus/,
  },
  {
    name: "with a delegate that is a path",
    conf: delegating({ type: "../default-first" }),
    code: 7,
    message: /type/,
  },
  {
    name: "with an unusable key",
    conf: '{"cniVersion":"1.0.0","name":"x","type":"plexus","delegates":{}}',
    code: 7,
    message: /delegates/,
  },
  {
    name: "with a namespaceIsolation of words",
    conf: '{"cniVersion":"1.0.0","name":"x","type":"plexus","namespaceIsolation":"yes"}',
    code: 7,
    message: /namespaceIsolation/,
  },
];

function delegating(plugin: object): string {
  const delegates = [{ cniVersion: "1.0.0", name: "inner", plugins: [plugin] }];
  return JSON.stringify({ cniVersion: "1.0.0", name: "x", type: "plexus", delegates });
}

test.for(badConfs)(
  "a conf that is $name is refused [R-0.4-36]",
  async ({ conf, code, message }, { node, plugins }) => {
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
