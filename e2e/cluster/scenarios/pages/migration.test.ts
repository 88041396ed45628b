import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { HostState, HostStateKind } from "../../../support/host-state.ts";
import { nad } from "../../../support/node/manifests.ts";
import { type Cluster, startCluster, waitForServiceAccount } from "../../kubernetes/cluster.ts";
import { writePlexusImage } from "../target/images.ts";
import { nodeState } from "../target/node-state.ts";
import { networkStatus, type PodObject } from "../target/objects.ts";
import { eventually, isCrio, isGiven } from "../target/target.ts";
import { type Installer, openMigrationPage } from "./migration-page.ts";
import {
  deletePod,
  expectAttachedByMultus,
  expectWorking,
  type PodName,
  startPod,
  store,
} from "./migration-pods.ts";
import { installMultus, loadMultusImages, type MultusForm } from "./multus.ts";

const kinds: readonly HostStateKind[] = [
  ...(["attachment records", "locks", "cached results", "netns", "links", "qdiscs"] as const),
  ...(["iptables rules", "port mappings"] as const),
  // With CRI-O, `store` is the first to use the portmap plugin, whose tables stay.
  ...(isCrio ? [] : (["nftables rules"] as const)),
];

/** What thick Multus leaves of its pods with CRI-O: its shim hides that a DEL fails, and CRI-O calls no other. */
const leftByThick: readonly HostStateKind[] = ["address leases", "other plugin files"];

/**
 * Which pods are deleted on Plexus, and which after the way back. Thick Multus's first DEL of a primary network whose
 * file has address ranges fails, as it keeps the file without them. With CRI-O, no pod stays on either way.
 */
const forms = {
  thin: { leaving: ["first", "own"], staying: ["second"] },
  thick: { leaving: ["first", "own", "second"], staying: [] },
} as const satisfies Record<MultusForm, Record<"leaving" | "staying", readonly PodName[]>>;

/** The first two have every form and every installer; `make e2e SUITE=migration` runs all. */
const ways: readonly { readonly form: MultusForm; readonly installer: Installer }[] = [
  { form: "thin", installer: "kubectl" },
  { form: "thick", installer: "helm" },
  { form: "thin", installer: "helm" },
  { form: "thick", installer: "kubectl" },
];
const isWhole = process.env.PLEXUS_E2E_MIGRATION === "all";

describe.skipIf(isGiven)("docs/user/migration.md", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster();
    await cluster.node.loadImage(await writePlexusImage());
    await loadMultusImages(cluster);
    await waitForServiceAccount(cluster, "default");
  });

  afterAll(async () => cluster?.[Symbol.asyncDispose]());

  test.each(isWhole ? ways : ways.slice(0, 2))(
    "a node of $form Multus moves to Plexus with $installer, and back; running pods stay attached, or with CRI-O are evicted; nothing is left of them",
    async ({ form, installer }) => {
      const { leaving, staying } = isCrio ? forms.thick : forms[form];
      // The first port mapping makes tables that stay.
      await startPod(cluster, "first", { withStore: false });
      await deletePod(cluster, "first");
      const before = await stateOf(cluster, form);
      await using page = await openMigrationPage(cluster, installer);
      await installMultus(cluster, form);
      await cluster.apply(nad("store", store));
      for (const name of ["first", "second"] as const) {
        await startPod(cluster, name);
        await expectWorking(cluster, name);
      }

      await page.follow("there");
      for (const name of ["first", "second"] as const) {
        // With CRI-O, the page evicts them.
        if (isCrio) await startPod(cluster, name);
        await expectWorking(cluster, name);
      }
      if (!isCrio) await expectAttachedByMultus(cluster, "first");
      await startPod(cluster, "own");
      await eventually("its network-status is published", async () => {
        return networkStatus(await cluster.get<PodObject>("pod", "own")).length === 2;
      });
      await expectWorking(cluster, "own");
      for (const name of leaving) await deletePod(cluster, name);

      await page.follow("back");
      for (const name of staying) {
        await expectWorking(cluster, name);
        await deletePod(cluster, name);
      }
      await page.follow("there");
      await page.follow("at-the-end");
      await page.uninstall();
      await cluster.kubectl("delete", "network-attachment-definition", "store");
      await eventually("the node has what it had before", async () => {
        expect(await stateOf(cluster, form)).toEqual(before);
        return true;
      });
      expect(await cluster.inNode(["ls", "/etc/cni/net.d"])).toBe("10-primary.conflist");
    },
  );
});

function stateOf(cluster: Cluster, form: MultusForm): Promise<HostState> {
  return nodeState(cluster, isCrio && form === "thick" ? kinds : [...kinds, ...leftByThick]);
}
