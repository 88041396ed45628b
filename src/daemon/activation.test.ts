import { expect, test } from "vitest";
import { inheritedSocket } from "./activation.ts";

test.each([
  [{ LISTEN_PID: "7", LISTEN_FDS: "1" }, 3],
  [{ LISTEN_PID: "8", LISTEN_FDS: "1" }, undefined],
  [{ LISTEN_FDS: "1" }, undefined],
  [{}, undefined],
])("inheritedSocket(%j) is the descriptor that systemd passed to this process", (env, fd) => {
  expect(inheritedSocket(env, 7)).toBe(fd);
});

test.each(["0", "2", "x", ""])("inheritedSocket() rejects LISTEN_FDS=%s", (fds) => {
  const env = { LISTEN_PID: "7", LISTEN_FDS: fds };
  expect(() => inheritedSocket(env, 7)).toThrow("plexusd serves one socket");
});
