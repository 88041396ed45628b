import { mkdir, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { verdictOfCondition } from "#lib/condition.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { tokenFindings } from "./node-findings.ts";

/** The finding about a token that was issued and expires so many minutes from now. */
async function findingOf(issued: number, expires: number): Promise<string> {
  const stateDir = await temporaryDirectory();
  expect(await tokenFindings(stateDir)).toEqual([]);
  const now = Date.now() / 1000;
  const times = { iat: now + issued * 60, exp: now + expires * 60 + 30 };
  const token = `e30.${Buffer.from(JSON.stringify(times)).toString("base64url")}.c2ln`;
  const { dir, kubeconfig } = standalonePaths(stateDir);
  await mkdir(dir);
  await writeFile(kubeconfig, JSON.stringify({ users: [{ user: { token } }] }));
  const [finding] = await tokenFindings(stateDir);
  return finding === undefined ? "" : `${verdictOfCondition(finding)}: ${finding.message}`;
}

test("doctor gives the token's age, and reports one that is not renewed or has expired", async () => {
  expect(await findingOf(-10, 50)).toBe("ok: issued 10 min ago, expires in 50 min");
  expect(await findingOf(-48, 12)).toMatch(/^ok: /);
  expect(await findingOf(-55, 4)).toMatch(
    /^warning: issued 55 min ago, expires in 4 min, and is not/,
  );
  expect(await findingOf(-70, -11)).toMatch(/^problem: issued 70 min ago, expired 10 min ago: /);
});
