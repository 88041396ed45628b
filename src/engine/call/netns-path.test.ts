import { expect, test } from "vitest";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { isMadeOnce, isOfProcess, isSamePath, recordsAt } from "./netns-path.ts";

const uuid = "0b6bb8b5-4d5a-4c5e-9a64-7d3b0a1c2e3f";

test.each([
  ["containerd's", `/var/run/netns/cni-${uuid}`, true],
  ["CRI-O's", `/var/run/netns/${uuid.toUpperCase()}`, true],
  ["podman's", `/run/netns/netns-${uuid}`, true],
  ["a user's", "/run/netns/web", false],
  ["one below a UUID", `/run/${uuid}/web`, false],
  ["one with a shorter UUID", `/run/netns/${uuid.slice(1)}`, false],
  ["that of a process", "/proc/7/ns/net", false],
] as const)("isMadeOnce(): %s", (_, netns, expected) => {
  expect(isMadeOnce(netns)).toBe(expected);
});

test.each([
  ["/run/netns/a", "/run/netns/a", true],
  ["/var/run/netns/a", "/run/netns/a", true],
  ["/run/netns/a", "/var/run/netns/a", true],
  ["/run/netns/a", "/run/netns/b", false],
  ["/x/var/run/netns/a", "/x/run/netns/a", false],
  [undefined, "/run/netns/a", false],
] as const)("isSamePath() of %s and %s", (a, b, expected) => {
  expect(isSamePath(a, b)).toBe(expected);
});

test.each([
  [{ netns: "/proc/7/ns/net" }, true],
  [{ netns: "/run/netns/link", netnsProcess: "" }, true],
  [{ netns: "/run/proc/a" }, false],
])("isOfProcess() of %j", (sandbox, expected) => {
  expect(isOfProcess(sandbox)).toBe(expected);
});

test("recordsAt() asks for one directory by both names, and returns what is at the path", async () => {
  const all = ["/run/netns/a", "/var/run/netns/a", "/x/run/netns/a", "/run/netns/b"];
  const asked: string[] = [];
  const list = async ({ containing = "" } = {}) => {
    const texts = all
      .map((netns) => ({ netns }))
      .filter((each) => JSON.stringify(each).includes(containing));
    asked.push(containing);
    return { records: texts, damaged: ["damaged"] };
  };
  const deps = { records: { list } } as unknown as Pick<EngineDeps, "records">;
  for (const netns of all.slice(0, 2)) {
    const { records, damaged } = await recordsAt(deps, netns);
    expect(records.map((each) => each.netns)).toEqual(all.slice(0, 2));
    expect(damaged).toEqual(["damaged"]);
  }
  expect(asked).toEqual(['/run/netns/a"', '/run/netns/a"']);
});
