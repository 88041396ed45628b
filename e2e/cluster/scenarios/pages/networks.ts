import { cp, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { nadConf, parseNad } from "#npwg/nad.ts";
import { networksAnnotation, parseNetworkSelections } from "#npwg/selection/selection.ts";
import { type CodeBlock, codeBlocks } from "../../../support/markdown.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { run } from "../../machine/run.ts";
import { otherImages, podImage, writeOtherImage } from "../target/images.ts";
import type { Scene } from "../target/scene.ts";
import { eventually, isGiven, ownCluster, skipGiven } from "../target/target.ts";
import { startPageDevices } from "./page-devices.ts";
import { bridgesOf, expectShown, isForGuest, notRun, type Step, stepsOf } from "./steps.ts";
import { loadWhereabouts, prepareWhereabouts } from "./whereabouts.ts";

/** An object of a recipe. */
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

const read = (): Promise<string> => readFile(join(repositoryRoot, "docs/user/networks.md"), "utf8");

/** Replaces the page's image, and its plugin for virtual functions: a cluster in namespaces has none. */
const replaced = (text: string): string =>
  text.replaceAll("busybox:1.37", podImage).replaceAll('"type": "sriov"', '"type": "link-device"');

/** Copies deploy/, with the image that has the reference plugins. */
async function copyDeploy(to: string): Promise<void> {
  await cp(join(repositoryRoot, "deploy"), to, { recursive: true, verbatimSymlinks: true });
  const file = join(to, "image/kustomization.yaml");
  const [, tag = ""] = otherImages.plugins.split(":");
  await writeFile(file, (await readFile(file, "utf8")).replace("newTag: dev", `newTag: ${tag}`));
}

/** Runs the recipes of docs/user/networks.md. Those of one section are applied together, then checked. */
export function networkPageScenarios(scene: () => Scene): void {
  describe("docs/user/networks.md", () => {
    let devices: AsyncDisposable | undefined;

    beforeAll(async () => {
      if (isGiven) return;
      devices = await startPageDevices(scene());
      const { node, directory } = ownCluster(scene());
      await loadWhereabouts(ownCluster(scene()));
      await node.loadImage(await writeOtherImage("plugins", directory));
      await scene().remember();
    });

    afterAll(async () => {
      await devices?.[Symbol.asyncDispose]();
      if (!isGiven) await scene().remember();
    });

    test("the recipes attach pods, with the output that the page shows", async (context) => {
      skipGiven(context);
      await using directory = await mkdtempDisposable(join(tmpdir(), "plexus-networks-"));
      const doc = join(await prepareWhereabouts(), "doc");
      await cp(doc, join(directory.path, "whereabouts/doc"), { recursive: true });
      await copyDeploy(join(directory.path, "deploy"));
      const sections = (await read()).split(/^(?=## )/m).map((text) => codeBlocks(replaced(text)));
      expect(notRun(sections.flat(), "sh")).toEqual([
        expect.stringMatching("^helm template"),
        expect.stringMatching("^git clone"),
      ]);
      expect(notRun(sections.flat(), "yaml")).toEqual([expect.stringMatching("^- uses: ")]);
      try {
        for (const blocks of sections) await runSection(scene(), blocks, directory.path);
        await expectReconciled(scene());
      } finally {
        await removeRecipes(scene(), sections.flat(), directory.path);
      }
    });

    test("the API server and Plexus accept the recipes that need another kernel", async (context) => {
      skipGiven(context);
      const forGuest = stepsOf(codeBlocks(await read())).filter(isForGuest);
      const texts = forGuest.filter(({ info }) => info.startsWith("yaml"));
      expect(texts).toHaveLength(2);
      for (const { text } of texts) {
        await apply(scene(), text, "--dry-run=server");
        for (const document of parseAllDocuments(text)) await parseAsPlexus(document.toJS());
      }
    });
  });
}

/** Applies the YAML of a section at once, waits for its pods, and compares what its commands print. */
async function runSection(scene: Scene, blocks: readonly CodeBlock[], cwd: string): Promise<void> {
  const steps = stepsOf(blocks).filter((step) => !isForGuest(step));
  const manifests = steps.filter(({ info }) => info === "yaml run");
  if (manifests.length === 0) return;
  const input = manifests.map(({ text }) => text).join("---\n");
  await apply(scene, input);
  await scene.target.kubectl("wait", "--for=condition=Ready", "pods", "--all", "--timeout=240s");
  for (const step of steps) {
    if (step.info !== "yaml run") expectShown(step, await runStep(scene, step, cwd));
  }
}

async function apply({ target }: Scene, input: string, ...flags: string[]): Promise<void> {
  await run(target.kubectlCommand("apply", "--filename=-", ...flags), { input });
}

async function runStep(scene: Scene, { info, text }: Step, cwd: string): Promise<string> {
  if (info === "sh run on the node") return scene.target.inNode(["sh", "-euc", text]);
  const plugins = `PATH=$PATH:${join(repositoryRoot, "deploy")}`;
  const script = ["-euo", "pipefail", "-c", `${plugins}\n${text}`];
  return run(ownCluster(scene).administratorCommand("bash", ...script), { cwd });
}

/** Waits until whereabouts's reconciler has freed an address of a pod that does not exist, and kept the others. */
async function expectReconciled({ target }: Scene): Promise<void> {
  const system = "--namespace=kube-system";
  const pool = ["ippools.whereabouts.cni.cncf.io", "10.70.8.0-24", system, "--type=merge"] as const;
  const every = JSON.stringify({ data: { "cron-expression": "* * * * *" } });
  await target.kubectl("patch", "configmap", "whereabouts-config", system, `--patch=${every}`);
  const orphan = { 99: { id: "gone", ifname: "net1", podref: "default/gone" } };
  const patch = JSON.stringify({ spec: { allocations: orphan } });
  await target.kubectl("patch", ...pool, `--patch=${patch}`);
  await target.kubectl("rollout", "restart", "deployment/whereabouts-reconciler", system);
  await eventually("the reconciler has freed the address", async () => {
    const path = "--output=jsonpath={.spec.allocations.*.podref}";
    return (await target.kubectl("get", ...pool.slice(0, 3), path)) === "default/reserved";
  });
}

/** Deletes what the page made, pods first, and what the plugins leave: bridges, whereabouts's files. */
async function removeRecipes(
  scene: Scene,
  blocks: readonly CodeBlock[],
  cwd: string,
): Promise<void> {
  const ignore = ["--ignore-not-found", "--timeout=240s"];
  await scene.target.kubectl("delete", "pods", "--all", ...ignore);
  const yaml = blocks.filter(({ info }) => info === "yaml run").map(({ text }) => text);
  const stdin = scene.target.kubectlCommand("delete", "-f-", ...ignore);
  await run(stdin, { input: yaml.join("---\n") });
  await scene.target.kubectl("delete", "-f", join(cwd, "whereabouts/doc/crds"), ...ignore);
  await scene.target.kubectl("delete", "-k", join(cwd, "deploy/overlays/dhcp"), ...ignore);
  await scene.target.inNode([
    "rm",
    "-rf",
    "/etc/cni/net.d/whereabouts.d",
    "/opt/cni/bin/whereabouts",
  ]);
  for (const bridge of bridgesOf(yaml.join())) {
    await scene.target.inNode(["sh", "-c", `ip link delete ${bridge} || true`]);
  }
}

/** Reads a definition or a pod's annotation as a call does. @throws CniError if it is invalid */
async function parseAsPlexus(object: Manifest): Promise<void> {
  if (object.kind === "NetworkAttachmentDefinition") {
    await nadConf(parseNad(object, { isManifest: true }), (name) => {
      throw new Error(`${name} has no config`);
    });
  } else {
    const annotation = object.metadata.annotations?.[networksAnnotation] ?? "";
    expect(parseNetworkSelections(annotation, { podNamespace: "default" })).not.toEqual([]);
  }
}
