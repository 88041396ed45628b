import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { codeBlocks } from "../../support/markdown.ts";
import { test } from "../../support/node/test.ts";
import { repositoryRoot } from "../../support/paths.ts";

/** The commands of a section of docs/operations/troubleshooting.md. */
async function commandsOf(heading: string): Promise<string> {
  const page = await readFile(join(repositoryRoot, "docs/operations/troubleshooting.md"), "utf8");
  const [section = ""] = page.split(`\n## ${heading}\n`)[1]?.split("\n## ") ?? [];
  return codeBlocks(section)
    .map(({ text }) => text)
    .join("");
}

test("docs/operations/troubleshooting.md prints the leaked addresses, and none that may be in use", async ({
  node: { lab },
}) => {
  const script = async (crictl: string) => {
    const path = join(lab.dir, "crictl");
    await writeFile(path, `#!/bin/sh\n${crictl}\n`);
    await chmod(path, 0o755);
    const commands = (await commandsOf("Leaked addresses")).replaceAll("/tmp/", `${lab.dir}/`);
    const env = { PATH: `${lab.dir}:${process.env.PATH}` };
    return lab.try(["sh", "-c", commands], { env });
  };
  await lab.run(
    "sh",
    "-c",
    "ip netns add running && ip -n running address add 198.51.100.4/24 dev lo",
  );
  const lease = (ip: string, id: string, at = "1 hour ago"): Promise<string> => {
    const dir = "/var/lib/cni/networks/net-a";
    const write = `mkdir -p ${dir}; printf '%s\\r\\neth0' ${id} > ${dir}/${ip}`;
    return lab.run("sh", "-c", `${write}; touch -d '${at}' ${dir}/${ip}`);
  };
  await lease("198.51.100.2", "gone");
  await lease("2001:db8:7::2", "gone");
  await lease("198.51.100.3", "k8s-listed");
  await lease("198.51.100.4", "has-its-address");
  await lease("198.51.100.5", "starting", "1 minute ago");
  await lease("last_reserved_ip.0", "gone");
  const found = await script("echo listed");
  expect(found).toMatchObject({ exitCode: 0, stderr: "" });
  expect(String(found.stdout).split("\n").toSorted()).toEqual([
    "198.51.100.2 gone",
    "2001:db8:7::2 gone",
  ]);
  expect(await script("exit 1")).toMatchObject({ exitCode: 1, stdout: "" });
});
