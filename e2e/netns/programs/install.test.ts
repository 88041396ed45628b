import { chown, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { distPath, nodeBinary } from "../../support/paths.ts";

/** As Kubespray's user kube, who owns the container runtime's directories there. */
const kube = 998;

/** plexusctl install as the init container runs it: root, with no capabilities but these. */
async function install(dir: string, capabilities: string) {
  const script = distPath("plexusctl.js");
  const limited = ["--inh-caps=-all", `--bounding-set=-all${capabilities}`];
  const list = ["--plugin-dirs-file", join(dir, "plugin-dirs")];
  const flags = ["--from", dirname(script), "--bin-dir", dir, ...list];
  const command = [nodeBinary(), script, "install", ...flags];
  return execa("setpriv", [...limited, "--", ...command], { reject: false });
}

test("plexusctl install into a directory of another user needs DAC_OVERRIDE, and its error says so", async () => {
  const dir = await mkdtemp(join(tmpdir(), "plexus-kubespray-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  await chown(dir, kube, 0);
  const refused = await install(dir, "");
  expect(refused.exitCode).toBe(1);
  expect(refused.stderr).toMatch(
    /^plexusctl install: EACCES: .* belongs to user 998, .*kubespray$/,
  );
  expect(await readdir(dir)).toEqual([]);
  expect(await install(dir, ",+dac_override")).toMatchObject({ exitCode: 0 });
  expect(await readdir(dir)).toEqual(["plexus"]);
});
