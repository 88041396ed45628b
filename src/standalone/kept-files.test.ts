import { execFileSync } from "node:child_process";
import { mkdir, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPlainKubeconfig } from "#kube/api/plain-kubeconfig.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { CallConfigs, readNodeName } from "./kept-files.ts";

/** Replaces a file that plexusd keeps; the host's files have a secret. */
type Attack = (path: string, host: string) => Promise<unknown>;

const attacks: readonly [string, Attack][] = [
  ["a link to a file of the host", (path, host) => symlink(join(host, "secret"), path)],
  [
    "a file in a directory of the host",
    async (path, host) => {
      const dir = join(path, "..");
      await rename(join(host, "secret"), path.replace(dir, host));
      await rm(dir, { recursive: true });
      await symlink(host, dir);
    },
  ],
  ["a pipe", async (path) => execFileSync("mkfifo", [path])],
  [
    "a sparse file",
    async (path) => {
      await writeFile(path, "");
      await truncate(path, 2 ** 31);
    },
  ],
];

test.each(attacks)(
  "plexus-standalone reads no %s, and prints nothing of it [S-106]",
  async (_, attack) => {
    for (const [name, secret] of Object.entries({
      config: "logLevel: s3cr3t",
      nodeName: "s3cr3t",
      kubeconfig: "current-context: s3cr3t",
    })) {
      const base = await temporaryDirectory();
      const host = join(base, "host");
      const kept = standalonePaths(base);
      for (const dir of [host, kept.dir]) await mkdir(dir);
      await writeFile(join(host, "secret"), secret);
      await attack(kept[name as "config"], host);
      const read = {
        config: () => new CallConfigs([{ path: kept.config, links: "none" }]).read(),
        nodeName: async () => expect(readNodeName(kept.nodeName)).toBeUndefined(),
        kubeconfig: async () => readPlainKubeconfig(kept.kubeconfig, { links: "none" }),
      }[name as "config"];
      const failed = await read().catch((error: Error) => error.message);
      if (name !== "nodeName")
        expect(failed).toMatch(/ (is a link, .*|is not a regular file|has more than \d+ bytes)$/);
      expect(failed ?? "").not.toContain("s3cr3t");
    }
  },
);
