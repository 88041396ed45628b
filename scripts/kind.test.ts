import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

/** Records its command line, and prints what the test gives it. */
const recorder = `#!/bin/sh
echo "\${0##*/} $*" >>"$LOG"
case "\${0##*/} $*" in
  "kind get clusters") printf '%s' "$CLUSTERS" ;;
  *" get daemonset "*) printf '%s' "$INSTALLED" ;;
esac
`;

/** What scripts/kind.sh runs for the cluster `dev`. */
async function commandsWith(env: { CLUSTERS: string; INSTALLED: string }): Promise<string[]> {
  const dir = await mkdtemp(join(tmpdir(), "plexus-kind-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  for (const name of ["kind", "kubectl"])
    await writeFile(join(dir, name), recorder, { mode: 0o755 });
  const script = join(import.meta.dirname, "kind.sh");
  const LOG = join(dir, "log");
  execFileSync(script, ["dev"], { env: { ...env, LOG, PATH: `${dir}:${process.env.PATH}` } });
  return (await readFile(LOG, "utf8")).trimEnd().split("\n");
}

const apply = [
  "kubectl --context kind-dev -n kube-system get daemonset plexus --ignore-not-found -o name",
  "kubectl --context kind-dev apply -f crds/",
  "kubectl --context kind-dev apply -k deploy/overlays/reference-plugins",
];
const status =
  "kubectl --context kind-dev -n kube-system rollout status daemonset/plexus --timeout=240s";

test("kind.sh creates the cluster, loads the image and installs Plexus", async () => {
  expect(await commandsWith({ CLUSTERS: "development\n", INSTALLED: "" })).toEqual([
    "kind get clusters",
    "kind create cluster --name dev --wait 180s",
    "kind load image-archive dist/plexus-image.tar --name dev",
    ...apply,
    status,
  ]);
});

test("kind.sh brings a new image to a cluster that has Plexus", async () => {
  const installed = { CLUSTERS: "dev\nother\n", INSTALLED: "daemonset.apps/plexus" };
  expect(await commandsWith(installed)).toEqual([
    "kind get clusters",
    "kind export kubeconfig --name dev",
    "kind load image-archive dist/plexus-image.tar --name dev",
    ...apply,
    "kubectl --context kind-dev -n kube-system rollout restart daemonset/plexus",
    status,
  ]);
});
