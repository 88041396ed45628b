import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { readTokenTimes } from "./token-times.ts";

const claims = Buffer.from(JSON.stringify({ iat: 100, exp: 3700 })).toString("base64url");
const user = (each: object): object => ({ users: [{ name: "plexus", user: each }] });

test.each([
  [JSON.stringify(user({ token: `e30.${claims}.c2ln` })), { issuedAt: 100, expiresAt: 3700 }],
  [JSON.stringify(user({ token: "opaque" })), undefined],
  [JSON.stringify(user({ "client-key-data": "" })), undefined],
  ["users: not JSON", undefined],
  ["[]", undefined],
])("readTokenTimes() reads the token's times: %#", async (text, times) => {
  const dir = await temporaryDirectory();
  const path = join(dir, "kubeconfig");
  expect(await readTokenTimes(path)).toBeUndefined();
  await writeFile(path, text);
  expect(await readTokenTimes(path)).toEqual(times);
});
