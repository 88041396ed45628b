import { expect, test } from "vitest";
import { EngineLab, netns, network } from "#engine/testing/engine-lab.ts";

const path = "/proc/7/ns/net";

/** What the shim says of the path: `mounted`, or which process's namespace it is. */
type Found = "mounted" | { readonly process: string };

function environment(found: Found, CNI_NETNS = path): Record<string, string> {
  const process = found === "mounted" ? {} : { PLEXUS_NETNS_PROCESS: found.process };
  return { CNI_NETNS, PLEXUS_NETNS: "ok", ...process };
}

const one: Found = { process: "100-net:[4026532001]" };
const another: Found = { process: "200-net:[4026532001]" };
const unknown: Found = { process: "" };

/** An ADD and a DEL of the same container; `ran` is the namespace that the DEL's plugin gets. */
test.each<{ added: Found; deleted: Found; at?: string; record?: "no"; ran: string }>([
  { added: one, deleted: one, ran: path },
  { added: one, deleted: another, ran: "" },
  { added: unknown, deleted: unknown, ran: "" },
  { added: one, deleted: one, at: "/proc/8/ns/net", ran: "" },
  { added: one, deleted: one, record: "no", ran: "" },
  // As records of earlier releases, which do not say which process it was.
  { added: "mounted", deleted: one, ran: "" },
  { added: "mounted", deleted: "mounted", at: netns, ran: netns },
])(
  "del() in the namespace of $deleted, after an ADD in that of $added, passes $ran",
  async (scene) => {
    const { added, deleted, at = path, record, ran } = scene;
    const lab = new EngineLab({ conf: { delegates: [network("default-net", "ptp")] } });
    for (const each of [path, at]) lab.kernel.addNamespace(each);
    const first = at === netns ? netns : path;
    expect(await lab.add({ env: environment(added, first) })).toMatchObject({ exitCode: 0 });
    if (record === "no") await lab.records.quarantine({ containerId: "c1", ifName: "eth0" });
    expect(await lab.del({ env: environment(deleted, at) })).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual([ran]);
  },
);
