import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { CniError } from "#cni/error.ts";
import { makeNode } from "#daemon/cni-conf/testing/node.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { noLogger } from "#engine/ports/logger.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import { FakeRecords } from "#engine/testing/fake-records.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { isCrioRunning } from "#host/crio.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { handBackNode } from "./hand-back.ts";

/** Sockets of all processes in the network namespace count: those of other tests, too. */
vi.mock("#host/crio.ts", () => ({ isCrioRunning: vi.fn(async () => false) }));

type Listed = Awaited<ReturnType<RecordReader["list"]>>;

const calico = '{"cniVersion":"1.0.0","name":"k8s","plugins":[{"type":"calico"}]}';
const handedBack =
  "NodeHandedBack: Plexus was deleted: the container runtime uses 10-calico.conflist";
const nothing: Listed = { records: [], damaged: [] };

/** Records of pods with these networks, the first of which is the default network. */
function attached(...networks: readonly string[][]): Listed {
  const records = networks.map((names, n) => ({
    containerId: `c-${n}`,
    listName: "k8s",
    pod: { namespace: "default", name: `pod-${n}` },
    attachments: names.map((name, i) => ({
      isDefault: i === 0,
      state: "attached",
      conf: { name },
      cniArgs: [["K8S_POD_INFRA_CONTAINER_ID", `c-${n}`]],
    })),
  }));
  return { records: records as never, damaged: [] };
}

/** One of nerdctl: no CNI_ARGS name the sandbox. */
function ofNerdctl(...names: string[]): Listed {
  const { records, damaged } = attached(names);
  const withoutArgs = records.map((record) => ({
    ...record,
    attachments: record.attachments.map((each) => ({ ...each, cniArgs: [] })),
  }));
  return { records: withoutArgs, damaged };
}

/** A node that plexusd serves, and that it hands back with these records. */
async function makeServedNode(primaryDir?: string) {
  const node = await makeNode();
  const dir = primaryDir === undefined ? node.conf : join(node.root, primaryDir);
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "10-calico.conflist"), calico);
  const running = await node.start({ primaryDir: dir });
  await running.stop();
  const events: string[] = [];
  const finished: string[] = [];
  const nodeConf = { ...node.config, primaryDir: dir };
  const optionsWith = (listed: Listed) => ({
    stateDir: node.state,
    config: { current: () => ({ ...parseConfig("", "config"), nodeConf }) },
    records: Object.assign(new FakeRecords([]), {
      list: async () => listed,
      finish: async ({ containerId }: RecordKey) => void finished.push(containerId),
    }),
    confFiles: new HostConfFiles(),
    cluster: {
      recordOnNode: ({ reason, message }: { reason: string; message: string }) =>
        events.push(`${reason}: ${message}`),
    },
    logger: noLogger,
  });
  const handBack = (listed: Listed): Promise<void> => handBackNode(optionsWith(listed));
  return { ...node, optionsWith, handBack, events, finished };
}

test.for([
  ["nothing is attached", nothing],
  ["pods have the default network only", attached(["k8s"], ["k8s"])],
] as const)("handBackNode() leaves the node to its primary CNI if %s", async ([, listed]) => {
  const { handBack, events, finished, conf, put, state, start } = await makeServedNode();
  await put("00-plexus.conflist.cilium_bak", "{}");
  await handBack(listed);
  expect(events).toEqual([handedBack]);
  expect(finished).toEqual(listed.records.map(({ containerId }) => containerId));
  expect(await readdir(conf)).toEqual(["10-calico.conflist"]);
  expect(await readdir(state)).not.toContain("primary-conf");
  // Installed again, Plexus does not mistake this for a removal by another agent.
  expect((await start()).states).toEqual(["active"]);
});

test("handBackNode() removes an agent's copy of Plexus's file, which pods would need Plexus for, but no other file", async () => {
  const { handBack, events, conf, put, own } = await makeServedNode();
  const list = JSON.parse(JSON.stringify(await own()));
  const istio = { type: "istio-cni", name: "istio-cni" };
  await put(
    "00-istio-cni.conflist",
    JSON.stringify({ ...list, plugins: [...list.plugins, istio] }),
  );
  const others = { type: "plexus", delegates: [{ type: "bridge" }] };
  await put("87-nerdctl.conflist", JSON.stringify({ ...list, plugins: [others, istio] }));
  await handBack(nothing);
  expect(events).toEqual([handedBack]);
  expect(await readdir(conf)).toEqual(["10-calico.conflist", "87-nerdctl.conflist"]);
});

test("handBackNode() keeps the record of a container of nerdctl, which the primary CNI may leave", async () => {
  const { handBack, events, finished, conf } = await makeServedNode();
  const { records } = attached([], ["k8s"]);
  await handBack({ records: [...ofNerdctl("k8s").records, ...records.slice(1)], damaged: [] });
  expect(events).toEqual([handedBack]);
  expect(await readdir(conf)).toEqual(["10-calico.conflist"]);
  expect(finished).toEqual(["c-1"]);
});

test("handBackNode() keeps the records for CRI-O, which still calls Plexus to detach them", async () => {
  const { handBack, finished, conf } = await makeServedNode();
  vi.mocked(isCrioRunning).mockResolvedValueOnce(true);
  await handBack(attached(["k8s"]));
  expect(await readdir(conf)).toEqual(["10-calico.conflist"]);
  expect(finished).toEqual([]);
});

test("handBackNode() copies the primary's configuration from its own directory", async () => {
  const { handBack, conf } = await makeServedNode("private");
  await handBack(nothing);
  expect(await readdir(conf)).toEqual(["10-calico.conflist"]);
  expect(await readFile(join(conf, "10-calico.conflist"), "utf8")).toBe(calico);
});

test.for<[string, Listed, RegExp]>([
  [
    "a pod has an additional network",
    attached(["k8s"], ["k8s", "red"]),
    /only Plexus can detach are attached: 1 \(default\/pod-1\)\. New pods/,
  ],
  [
    "a record is damaged",
    {
      records: [],
      damaged: [
        {
          containerId: "c",
          ifName: "eth0",
          error: new CniError("DecodingFailure", "checksum"),
          plan: undefined,
          isIncomplete: false,
          isUnreadable: false,
          modifiedMs: 0,
          mayContain: () => true,
        },
      ],
    },
    /^NodeNotHandedBack: Plexus was deleted, but this node still needs it: checksum\. New pods/,
  ],
])("handBackNode() changes nothing and says why if %s", async ([, listed, reason]) => {
  const { handBack, events, conf, state } = await makeServedNode();
  await handBack(listed);
  expect(events).toEqual([expect.stringMatching(reason)]);
  expect(await readdir(conf)).toContain("00-plexus.conflist");
  expect(await readdir(state)).toContain("primary-conf");
});

test("handBackNode() changes nothing without a usable primary CNI", async () => {
  const { handBack, events, conf } = await makeServedNode();
  await rm(join(conf, "10-calico.conflist"));
  await handBack(nothing);
  expect(events).toEqual([expect.stringContaining("the node would have no network")]);
  expect(await readdir(conf)).toEqual(["00-plexus.conflist"]);
});

test("handBackNode() is silent on a node without Plexus's file", async () => {
  const { handBack, events, conf } = await makeServedNode();
  await rm(join(conf, "00-plexus.conflist"));
  await handBack(nothing);
  expect(events).toEqual([]);
});
