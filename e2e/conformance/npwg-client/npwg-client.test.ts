import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { builtModule } from "../../cluster/machine/go-module.ts";
import { run } from "../../cluster/machine/run.ts";
import { bridge, ptp } from "../../support/networks.ts";
import { test as nodeTest } from "../../support/node/test.ts";

const source = join(import.meta.dirname, "client.go");

/** What the library reads of a pod's annotations. */
interface Read {
  readonly networks: readonly { name: string; namespace: string; interface?: string }[];
  readonly status: readonly object[];
}

const test = nodeTest.extend("client", { scope: "file" }, async () => {
  const write = `mkdir plexus && cat >plexus/main.go <<'END'\n${await readFile(source, "utf8")}END`;
  const directory = await builtModule({
    name: "npwg-client",
    module: "github.com/k8snetworkplumbingwg/network-attachment-definition-client@v1.7.7",
    programs: { "npwg-client": "./plexus" },
    edit: write,
  });
  return async (annotations: object): Promise<Read> => {
    const input = JSON.stringify({ metadata: { name: "pod", namespace: "default", annotations } });
    return JSON.parse(await run([join(directory, "npwg-client")], { input })) as Read;
  };
});

test.beforeAll(async ({ node }) => {
  node.defaultNetwork = ptp("default", 60);
  await node.nad("red", bridge("red", 61, { capabilities: { mac: true, ips: true } }));
  await node.nad("blue", bridge("blue", 62), { namespace: "other" });
});

const requested = { mac: "02:00:00:00:00:61", ips: ["10.61.0.9/24"] };
const blue = { name: "blue", namespace: "other", interface: "data0" };

test.for([
  { form: "comma", networks: "red,other/blue@data0" },
  {
    form: "json",
    networks: [
      { name: "red", ...requested },
      { ...blue, "default-route": ["10.62.0.1"] },
    ],
  },
])(
  "NPWG's client library reads the same networks and network-status as Plexus: $form form",
  async ({ form, networks }, { node, client }) => {
    const pod = await node.pod(form, { networks });
    await pod.mustAdd();
    const status = await pod.status();
    const read = await client({
      "k8s.v1.cni.cncf.io/networks":
        typeof networks === "string" ? networks : JSON.stringify(networks),
      "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status),
    });
    expect(read.networks.map(({ namespace, name }) => `${namespace}/${name}`)).toEqual(
      status.slice(1).map(({ name }) => name),
    );
    expect(read.networks[1]?.interface).toBe(status[2]?.interface);
    if (form === "json") expect(read.networks[0]).toMatchObject(requested);
    // The library leaves out what is false, and has no default-route.
    const own = status.map(({ default: isDefault, "default-route": _, ...entry }) => ({
      ...entry,
      ...(isDefault === true && { default: true }),
    }));
    expect(read.status).toMatchObject(own);
    await pod.mustDel();
  },
);
