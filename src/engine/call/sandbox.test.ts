import { expect, test } from "vitest";
import { NetnsError } from "#engine/ports/host.ts";
import { NetlinkError } from "#netlink/codec.ts";
import { inSandbox } from "./sandbox.ts";

test.each<[Error, answer: object]>([
  [
    new NetnsError("EACCES", 13),
    { code: 8, message: "cannot enter the pod's network namespace /run/netns/x: EACCES" },
  ],
  [
    new NetlinkError("cannot list routes: EPERM"),
    { code: 5, message: "cannot list routes: EPERM" },
  ],
])("inSandbox() converts %s, and keeps it as the cause", async (cause, answer) => {
  const failing = inSandbox("/run/netns/x", () => Promise.reject(cause));
  await expect(failing).rejects.toMatchObject({ name: "CniError", cause, ...answer });
});
