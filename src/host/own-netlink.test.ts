import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { ownNetlink } from "./own-netlink.ts";

/** Asks through a shim that does this. */
async function ask(script: string, messages = Buffer.from([1, 255, 0])): Promise<Uint8Array> {
  const shim = join(await temporaryDirectory(), "plexus");
  await writeFile(shim, `#!/bin/sh\n${script}\n`);
  await chmod(shim, 0o755);
  return ownNetlink(shim)("/proc/self/ns/net", messages);
}

test("ownNetlink() gives the shim the messages, and returns what it prints", async () => {
  const answer = await ask('[ "$*" = netlink ] && exec /bin/cat');
  expect(answer).toEqual(Buffer.from([1, 255, 0]));
});

test("ownNetlink() gives the shim nothing of the environment", async () => {
  expect(Buffer.from(await ask('echo "$HOME$NODE_ENV"')).toString()).toBe("\n");
});

test.each([
  ["fails", "echo 'refused: x' >&2; exit 1", "cannot ask the kernel: refused: x"],
  ["fails silently", "exit 1", "Command failed"],
  ["reads nothing", "exit 0", undefined],
])("ownNetlink() with a shim that %s: %s", async (_, script, message) => {
  const answer = ask(script, Buffer.alloc(1024 * 1024));
  if (message === undefined) expect((await answer).length).toBe(0);
  else
    await expect(answer).rejects.toMatchObject({
      code: 5,
      message: expect.stringContaining(message),
    });
});

test("ownNetlink() without a shim says so", async () => {
  await expect(ownNetlink("/nowhere/plexus")("", Buffer.of())).rejects.toThrow("/nowhere/plexus");
});
