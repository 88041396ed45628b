import { expect, test } from "vitest";
import { runProgram } from "./run-program.ts";

const sh = (script: string): string[] => ["sh", "-c", script];

test("runProgram() passes input and environment, and resolves to the output", async () => {
  const options = { input: "in", env: { X: "x" }, mayFail: true };
  expect(await runProgram(sh('cat; echo "$X$HOME"; echo err >&2; exit 3'), options)).toEqual({
    exitCode: 3,
    stdout: "inx\n",
    stderr: "err\n",
  });
  const unread = { input: "x".repeat(1024 * 1024) };
  expect(await runProgram(["true"], unread)).toMatchObject({ exitCode: 0 });
});

test.for<[what: string, command: string[], options: object, says: RegExp]>([
  ["fails", sh("echo a >&2; echo b >&2; exit 3"), {}, /exit code 3: sh .* a b$/],
  ["is missing", ["/nowhere/x"], { mayFail: true }, /\/nowhere\/x.*ENOENT/],
  ["is killed", sh("kill -9 $$"), { mayFail: true }, /SIGKILL/],
  ["hangs", ["sleep", "60"], { mayFail: true, timeoutMs: 50 }, /timed out after 50 milliseconds/],
  ["is to stop", ["sleep", "60"], { stopping: AbortSignal.timeout(50) }, /was canceled/],
  ["prints without end", ["yes"], { mayFail: true }, /maxBuffer/],
])("runProgram() says in one line that a program %s", async ([, command, options, says]) => {
  const { message } = await runProgram(command, options).then(
    () => new Error("it succeeded"),
    (error: Error) => error,
  );
  expect(message).toMatch(says);
  expect(message).not.toContain("\n");
});
