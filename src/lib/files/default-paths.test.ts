import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { defaultPaths, executableNames } from "./default-paths.ts";

test.each([
  ["SOCKET_PATH", defaultPaths.socket],
  ["STATE_DIR", defaultPaths.stateDir],
  ["STANDALONE_PATH", `${defaultPaths.cniBinDir}/${executableNames.standalone}`],
])("the shim's %s equals the default path", async (name, path) => {
  const header = await readFile(new URL("../../../shim/protocol.h", import.meta.url), "utf8");
  expect(new RegExp(`^#define ${name} "(.*)"$`, "m").exec(header)?.[1]).toBe(path);
});
