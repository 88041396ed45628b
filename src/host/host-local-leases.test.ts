import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { hostLocalLeases } from "./host-local-leases.ts";

test("hostLocalLeases() reads a thousand of many", async () => {
  const dir = await temporaryDirectory();
  await mkdir(join(dir, "networks/net-a"), { recursive: true });
  for (let i = 0; i < 1010; i++)
    await writeFile(join(dir, "networks/net-a", `10.0.${i >> 8}.${i & 255}`), "c1");
  expect(await hostLocalLeases(dir, "net-a")).toHaveLength(1000);
});

test("hostLocalLeases() reads what host-local has given away of a network, if anything", async () => {
  const dir = await temporaryDirectory();
  expect(await hostLocalLeases(dir, "net-a")).toEqual([]);
  const files = { "10.0.0.2": "c1\r\neth0", "fd00::2": "c1", "last_reserved_ip.0": "10.0.0.2" };
  await mkdir(join(dir, "networks/net-a"), { recursive: true });
  for (const [name, text] of Object.entries({ ...files, lock: "" }))
    await writeFile(join(dir, "networks/net-a", name), text);
  expect((await hostLocalLeases(dir, "net-a")).toSorted()).toEqual([
    { address: "10.0.0.2", containerId: "c1", path: join(dir, "networks/net-a/10.0.0.2") },
    { address: "fd00::2", containerId: "c1", path: join(dir, "networks/net-a/fd00::2") },
  ]);
});
