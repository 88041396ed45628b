import { writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createSilentServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Answer, cniError, eachBuild } from "./lab/harness.ts";

const supportedVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

eachBuild("without plexusd, the shim", (bench) => {
  test("prints its version and the supported CNI versions on stderr if CNI_COMMAND is empty", async () => {
    const answer = await bench().run({ env: { CNI_COMMAND: "" }, stdin: "" });
    expect(answer).toMatchObject({ code: 0, stdout: "" });
    expect(answer.stderr).toMatch(/^plexus \S+: .*\n/);
    expect(answer.stderr).toMatch(
      /\nCNI protocol versions supported: 0\.1\.0, 0\.2\.0, 0\.3\.0, 0\.3\.1, 0\.4\.0, 1\.0\.0, 1\.1\.0\n$/,
    );
  });

  test("prints version and commit with --version", async () => {
    const answer = await bench().run({ args: ["--version"], env: { CNI_COMMAND: "ADD" } });
    expect(answer).toMatchObject({ code: 0, stderr: "" });
    expect(answer.stdout).toMatch(/^plexus \d+\.\d+\.\d+\S* \(\S+\)\n$/);
  });

  test.each([
    ['{"cniVersion":"0.4.0"}', "0.4.0"],
    ['{ "name":"x",\n "cniVersion" : \t"1.0.0" }', "1.0.0"],
    ['{"cniVersion":9,"x":{"cniVersion":"0.3.1"}}', "0.3.1"],
    ["", "1.1.0"],
    ["not json", "1.1.0"],
    ['{"cniVersion":"1.0.0', "1.1.0"],
    ['{"cniVersion":"1.0.0\\""}', "1.1.0"],
    ['{"cniVersion":""}', "1.1.0"],
    [`{"cniVersion":"${"1".repeat(40)}"}`, "1.1.0"],
    ['"cniVersion"', "1.1.0"],
    ['\0{"cniVersion":"0.4.0"}', "1.1.0"],
  ])("answers VERSION with %j on stdin in CNI version %s", async (stdin, cniVersion) => {
    const answer = await bench().run({ env: { CNI_COMMAND: "VERSION" }, stdin });
    expect(answer).toMatchObject({ code: 0, stderr: "" });
    expect(answer.stdout).toBe(`${JSON.stringify({ cniVersion, supportedVersions })}\n`);
  });

  test.each([
    ['{"cniVersion":"0.4.0"}', "0.4.0"],
    ["", "1.1.0"],
  ])("answers VERSION even if the caller keeps stdin open after %j", async (stdin, cniVersion) => {
    const options = { env: { CNI_COMMAND: "VERSION" }, holdStdin: true };
    const answer = await bench().run({ ...options, stdin });
    expect(answer.ms).toBeLessThan(3000);
    expect(JSON.parse(answer.stdout)).toEqual({ cniVersion, supportedVersions });
  });

  test("rejects a stdin that cannot be read", async () => {
    const starter = ["sh", "-c", 'exec "$@" </', "runtime"];
    const error = cniError(await bench().run({ starter }));
    const msg = "cannot read stdin: Is a directory";
    expect(error).toEqual({ cniVersion: "1.1.0", code: 5, reason: "IoFailure", msg });
  });

  test("rejects more than 8 MiB on stdin", async () => {
    const path = join(bench().dir, "conf");
    writeFileSync(path, Buffer.alloc((8 << 20) + 1, " "));
    const starter = ["sh", "-c", `exec "$@" <${path}`, "runtime"];
    const error = cniError(await bench().run({ starter }));
    const msg = "stdin is longer than 8 MiB";
    expect(error).toEqual({ cniVersion: "1.1.0", code: 5, reason: "IoFailure", msg });
  });

  test("reports an unknown command in valid JSON, whatever characters the command has", async () => {
    const raw = Buffer.from('A"\\\n\u0001é');
    const error = cniError(await bench().run({ env: { CNI_COMMAND: raw.toString() } }));
    expect(error).toEqual({
      cniVersion: "1.0.0",
      code: 4,
      reason: "InvalidEnvironmentVariables",
      msg: 'unknown CNI_COMMAND: A"\\  é',
    });
  });

  test.each([
    ["ADD", 11],
    ["CHECK", 11],
    ["GC", 11],
    ["STATUS", 50],
  ])("fails %s with code %i", async (command, code) => {
    const answer = await bench().run({ env: { CNI_COMMAND: command } });
    const error = cniError(answer);
    expect(error).toMatchObject({ cniVersion: "1.0.0", code });
    expect(error.msg).toBe(
      `cannot reach plexusd on ${bench().socket} after ${command === "GC" ? 0 : 300} ms: ` +
        "it does not exist; is the plexus DaemonSet running on this node?",
    );
    if (command === "ADD") expect(answer.ms).toBeGreaterThan(290);
    expect(answer.ms).toBeLessThan(3000);
  });

  test("fails at once if it may not wait", async () => {
    const error = cniError(await bench().run({ env: { PLEXUS_WAIT_MS: "0" } }));
    expect(error.msg).toMatch(/ after 0 ms: /);
  });
});

eachBuild("plexus probe", (bench) => {
  const probe = (page: string): Promise<Answer> =>
    bench().run({ args: ["probe", bench().socket, page], env: { CNI_COMMAND: "" } });
  const listen = (server: ReturnType<typeof createSilentServer>): Promise<void> => {
    onTestFinished(() => void server.close());
    return new Promise((listening) => void server.listen(bench().socket, listening));
  };

  test.each([
    [200, "ok\n", 0],
    [503, "not ready: the primary CNI has no configuration\nnot ready: it is stopping\n", 1],
    [500, "200 OK\n", 1],
  ])("of a page with status %i prints its text and succeeds only with 200", async (...row) => {
    const [status, text, code] = row;
    const pages: unknown[] = [];
    const serve: RequestListener = (request, response) => {
      pages.push(`${request.method} ${request.url}`);
      response.writeHead(status).end(text);
    };
    await listen(createServer(serve));
    expect(await probe("/readyz")).toMatchObject({ code, stdout: text });
    expect(pages).toEqual(["GET /readyz"]);
  });

  test("of a server that answers in HTTP/1.0, as one in Go does, succeeds", async () => {
    const text = "HTTP/1.0 200 OK\r\n\r\nok\n";
    await listen(createSilentServer((socket) => void socket.end(text)));
    expect(await probe("/debug/rpc")).toMatchObject({ code: 0, stdout: "ok\n" });
  });

  test("fails without a socket and a page", async () => {
    const env = { CNI_COMMAND: "" };
    for (const args of [["probe"], ["probe", bench().socket], ["probe", "a", "/b", "c"]])
      expect(await bench().run({ args, env })).toMatchObject({ code: 1, stdout: "" });
  });

  test("fails if nothing listens", async () => {
    const answer = await probe("/healthz");
    expect(answer).toMatchObject({ code: 1, stdout: `${bench().socket}: it does not exist\n` });
  });

  test.each<[string, (socket: Socket) => void]>([
    ["is silent", (socket) => void socket.resume()],
    ["closes the connection", (socket) => void socket.destroy()],
  ])("fails before the kubelet's timeout if what listens %s", async (_, serve) => {
    await listen(createSilentServer(serve));
    const { code, stdout, ms } = await probe("/healthz");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "no answer\n" });
    expect(ms).toBeLessThan(5000);
  });
});
