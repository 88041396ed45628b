import { expect, test } from "vitest";
import { namesIn, readCall } from "./call.ts";

test("readCall() leaves out empty directories of CNI_PATH", () => {
  const path = (CNI_PATH?: string) =>
    readCall({ env: CNI_PATH === undefined ? {} : { CNI_PATH }, stdin: "" }).path;
  expect(path("/opt/cni/bin::/usr/lib/cni:")).toEqual(["/opt/cni/bin", "/usr/lib/cni"]);
  expect([path(""), path()]).toEqual([[], []]);
});

test("namesIn() reads the shim's list, in which each name ends with a slash", () => {
  expect(namesIn("lo/eth0/")).toEqual(new Set(["lo", "eth0"]));
  expect(namesIn("")).toEqual(new Set());
});
