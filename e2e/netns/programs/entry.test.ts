import { expect } from "vitest";
import { ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { scriptedTest as test } from "../../support/node/test.ts";
import { cniPluginDir } from "../../support/paths.ts";

const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

test.for(versions)(
  "the result has the CNI version of the runtime's conf: %s [R-1.0-40] [N-7.1a]",
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

interface Refused {
  readonly title: string;
  readonly env?: Record<string, string>;
  readonly conf?: string;
  readonly code: number;
  readonly message: RegExp;
}

const own = { CNI_NETNS: "/proc/self/ns/net" };
const inner = { cniVersion: "1.0.0", name: "inner", plugins: [{ type: "plexus" }] };
const refused: Refused[] = [
  { title: "no container ID", env: { CNI_CONTAINERID: "" }, code: 4, message: /CNI_CONTAINERID/ },
  { title: "an unknown command", env: { CNI_COMMAND: "DANCE" }, code: 4, message: /: DANCE/ },
  { title: "a missing namespace", env: { CNI_NETNS: "/run/no" }, code: 8, message: /run.no/ },
  {
    title: "a plain file as namespace",
    env: { CNI_NETNS: "/etc/hostname" },
    code: 8,
    message: /hostname/,
  },
  { title: "the shim's own namespace", env: own, code: 8, message: /should not be the same/ },
  { title: "no conf", conf: "", code: 6, message: /network config/ },
  { title: "no default network", conf: conf({}), code: 7, message: /clusterNetwork or delegates/ },
  { title: "Plexus as delegate", conf: conf({ delegates: [inner] }), code: 7, message: /plexus/ },
];

function conf(keys: object): string {
  return JSON.stringify({ cniVersion: "1.0.0", name: "x", type: "plexus", ...keys });
}

test.for(refused)(
  "ADD with $title fails [R-0.4-36]",
  async ({ env = {}, conf, code, message }, { node, plugins }) => {
    const pod = await node.newPod();
    const error = errorOf(await pod.add({ env, ...(conf === undefined ? {} : { conf }) }));
    expect(error.msg).toMatch(message);
    expect(error.code).toBe(code);
    expect(await plugins.order()).toEqual([]);
  },
);

test("ADD of a pod that does not exist or has another UID fails with code 11 [R-0.4-36]", async ({
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

test("STATUS calls the default network's plugins if its version is 1.1.0, and returns their error code [R-1.1-22]", async ({
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

test("STATUS with an older default network succeeds if its plugins answer VERSION [R-1.1-22]", async ({
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
