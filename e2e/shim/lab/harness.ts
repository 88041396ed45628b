import { isUtf8 } from "node:buffer";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect } from "vitest";
import { CniErrorCode } from "#cni/error.ts";
import { type Reason, reasonRow } from "#lib/reasons.ts";
import { waitUntil } from "../../support/wait.ts";
import {
  decodeFrame,
  type ExecOrder,
  encodeExec,
  encodeFrame,
  type FieldValue,
  type Frame,
  FrameType,
} from "./frames.ts";

const dist = resolve(import.meta.dirname, "../../../dist");

export interface Answer {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
  ms: number;
}

export interface RunOptions {
  env?: Record<string, string>;
  args?: string[];
  stdin?: string | Uint8Array;
  /** Never close stdin. */
  holdStdin?: boolean;
  /** @default root */
  uid?: number;
  /** The network namespace in which the shim runs. @default the tests' */
  node?: string;
  /** What becomes the shim: a runtime's way to start it, such as `prlimit --nofile=48`. */
  starter?: string[];
}

/** A running call of the shim. */
export interface Call {
  child: ChildProcess;
  ended: Promise<Answer>;
}

/** The shim's answer to one order. */
export interface ExecResult {
  outcome: string;
  code: number;
  stdout: string;
  stderr: string;
  message: string;
  elapsedUs: number;
}

export interface NetlinkResult {
  errno: number;
  bytes: Buffer;
  message: string;
  stage: string;
}

/** One connection of the shim to a scripted engine. */
class Conversation {
  request: Frame = { type: 0, fields: [] };
  #bytes: Buffer = Buffer.alloc(0);
  #wake = (): void => undefined;
  #ended = false;
  readonly socket: Socket;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      this.#wake();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#ended = true;
      this.#wake();
    });
  }

  async read(): Promise<Frame> {
    for (;;) {
      const next = decodeFrame(this.#bytes);
      if (next) {
        this.#bytes = next.rest;
        return next.frame;
      }
      if (this.#ended) throw new Error("the shim closed the connection");
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  async ended(): Promise<void> {
    await waitUntil("the shim has closed the connection", () => this.#ended);
  }

  exec(order: ExecOrder): Promise<ExecResult> {
    this.socket.write(encodeExec(order));
    return this.readExecResult();
  }

  async readExecResult(): Promise<ExecResult> {
    const fields = await this.#answer(FrameType.execResult, 6);
    const [outcome = "", code, stdout = "", stderr = "", message = "", us] = fields.map(String);
    return { outcome, code: Number(code), stdout, stderr, message, elapsedUs: Number(us) };
  }

  async #answer(wanted: number, count: number): Promise<Buffer[]> {
    const { type, fields } = await this.read();
    if (type === wanted && fields.length === count) return fields;
    throw new Error(`answer of type ${type} with ${fields.length} fields`);
  }

  netlink(path: string, bytes: Uint8Array): Promise<NetlinkResult> {
    this.send(FrameType.netlink, [path, bytes]);
    return this.readNetlinkResult();
  }

  async readNetlinkResult(): Promise<NetlinkResult> {
    const [errno, bytes, message, stage] = await this.#answer(FrameType.netlinkResult, 4);
    return {
      errno: Number(errno),
      bytes: bytes ?? Buffer.of(),
      message: String(message),
      stage: String(stage),
    };
  }

  /** Has the shim search for plugins, and returns an outcome and a message for each type. */
  async find(path: string, ...types: FieldValue[]): Promise<[string, string][]> {
    this.send(FrameType.find, [path, ...types]);
    const fields = await this.#answer(FrameType.findResult, 2 * types.length);
    return types.map((_, i) => [String(fields[2 * i]), String(fields[2 * i + 1])]);
  }

  /** The records whose sandbox may be in the namespace at a path. */
  async occupants(netns: FieldValue): Promise<string[]> {
    this.send(FrameType.occupants, [netns]);
    const [names] = await this.#answer(FrameType.occupantsResult, 1);
    return String(names).split("/").slice(0, -1).toSorted();
  }

  /** Has the agent lock a sandbox, and returns the outcome, the problem and the interfaces. */
  async sandbox(containerId: FieldValue, ...rest: [ifName: string, netns: string, use?: string]) {
    this.send(FrameType.sandbox, [containerId, ...(rest as string[])]);
    return (await this.#answer(FrameType.sandboxResult, 3)).map(String);
  }

  send(type: number, fields: FieldValue[]): void {
    this.socket.write(encodeFrame(type, fields));
  }

  done(code = 0, stdout = "", stderr = ""): void {
    this.send(FrameType.done, [code, stdout, stderr]);
  }
}

/** What the shim says of an engine whose frames it does not know. */
export const noSense =
  "plexusd sent a frame that this shim does not know; install both from one release";

export type Script = (engine: Conversation) => Promise<void> | void;

/** A directory with everything one test needs: socket, state, plugins. */
export class Bench {
  readonly dir = mkdtempSync(join(tmpdir(), "plexus-shim-"));
  readonly socket = join(this.dir, "plexus.sock");
  readonly state = join(this.dir, "state");
  readonly bin = join(this.dir, "bin");
  /** Used instead of /etc/plexus/plugin-dirs; exists only if a test writes it. */
  readonly pluginDirs = join(this.dir, "plugin-dirs");
  readonly shim: string;
  #servers: Server[] = [];
  #calls: ChildProcess[] = [];
  #failures: unknown[] = [];
  #netns: string[] = [];

  constructor(shim: string) {
    this.shim = shim;
    mkdirSync(this.state, { mode: 0o700 });
    mkdirSync(this.bin, { mode: 0o755 });
    chmodSync(this.dir, 0o755);
  }

  /** Puts a shell script into the plugin directory, or another one. */
  plugin(name: string, script: string, dir = this.bin): string {
    const path = join(dir, name);
    writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    return path;
  }

  /** Compiles a fixture into the plugin directory. */
  compile(name: string): string {
    const path = join(this.bin, name);
    execFileSync("cc", ["-o", path, join(import.meta.dirname, "../fixtures", `${name}.c`)]);
    return path;
  }

  /** Starts a scripted engine on the socket; it runs the script for every connection. */
  async engine(script: Script, path = this.socket): Promise<Server> {
    const server = createServer((socket) => {
      const conversation = new Conversation(socket);
      const play = async (): Promise<void> => {
        conversation.request = await conversation.read();
        await script(conversation);
      };
      play().catch((error: unknown) => this.#failures.push(error));
    });
    this.#servers.push(server);
    await new Promise<void>((listening) => server.listen(path, listening));
    return server;
  }

  /** The environment of a call; the shim gets nothing else. */
  env(extra: Record<string, string> = {}): Record<string, string> {
    return {
      PATH: "/usr/bin:/bin:/usr/sbin:/sbin",
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "c1",
      CNI_IFNAME: "eth0",
      CNI_NETNS: "",
      CNI_PATH: this.bin,
      PLEXUS_SOCKET: this.socket,
      PLEXUS_STATE_DIR: this.state,
      PLEXUS_STANDALONE: "",
      PLEXUS_WAIT_MS: "300",
      PLEXUS_PLUGIN_DIRS: this.pluginDirs,
      ...extra,
    };
  }

  start(options: RunOptions = {}): Call {
    const begun = performance.now();
    const env = this.env(options.env);
    const shim = options.uid === undefined ? this.shim : this.#copyForAll();
    const entry = options.node === undefined ? [] : ["nsenter", `--net=${options.node}`];
    const starter = [...entry, ...(options.starter ?? [])];
    const [file = shim, ...args] = [...starter, shim, ...(options.args ?? [])];
    const child = spawn(file, args, { env, uid: options.uid });
    this.#calls.push(child);
    child.stdin.on("error", () => undefined);
    child.stdin.write(options.stdin ?? '{"cniVersion":"1.0.0","name":"n","type":"plexus"}');
    if (!options.holdStdin) child.stdin.end();
    const chunks: Buffer[] = [];
    let stderr = "";
    child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const ended = new Promise<Answer>((resolveEnd, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        const ms = performance.now() - begun;
        if (/Sanitizer|runtime error:/.test(stderr)) reject(new Error(stderr));
        const bytes = Buffer.concat(chunks);
        if (!isUtf8(bytes)) reject(new Error("stdout is not UTF-8"));
        resolveEnd({ code, signal, stdout: bytes.toString(), stderr, ms });
      });
    });
    return { child, ended };
  }

  /** A copy of the shim that every user can execute: the checkout may be below /root, which only root can enter. */
  #copyForAll(): string {
    const copy = join(this.dir, "shim");
    copyFileSync(this.shim, copy);
    return copy;
  }

  run(options: RunOptions = {}): Promise<Answer> {
    return this.start(options).ended;
  }

  /** Runs one call whose engine sends this order, and returns the shim's answer. */
  async order(
    order: Omit<ExecOrder, "path"> & { path?: string },
    env = {},
    starter: string[] = [],
  ): Promise<ExecResult> {
    let result: ExecResult | undefined;
    const server = await this.engine(async (engine) => {
      result = await engine.exec({ path: this.bin, ...order });
      engine.done();
    });
    const answer = await this.run({ env, starter });
    server.close();
    expect(answer).toMatchObject({ code: 0, stdout: "" });
    if (!result) throw new Error("no answer to the order");
    return result;
  }

  /** A network namespace with nothing in it but `lo`, pinned at this path until the test is over. */
  netns(): string {
    return this.#pin("unshare", "-n", "mount");
  }

  /** As {@link netns}, but the network namespace of the tests. */
  ownNetns(): string {
    return this.#pin("mount");
  }

  #pin(file: string, ...args: readonly string[]): string {
    const path = join(this.dir, `netns${this.#netns.length}`);
    writeFileSync(path, "");
    execFileSync(file, [...args, "--bind", "/proc/self/ns/net", path]);
    this.#netns.push(path);
    return path;
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const child of this.#calls) child.kill("SIGKILL");
    for (const path of this.#netns) execFileSync("umount", ["-l", path]);
    rmSync(this.dir, { recursive: true, force: true });
    if (this.#failures.length > 0) throw new AggregateError(this.#failures, "engine script failed");
  }

  /** Ignores errors of the engine, for tests that kill the shim. */
  forgiveEngine(): void {
    this.#failures = [];
  }
}

/** Returns the error that the shim printed; fails if it printed anything else. */
export function cniError(answer: Answer): CniError {
  expect(answer.code).toBe(1);
  expect(answer.stdout.split("\n")).toHaveLength(2);
  const { details, ...error } = JSON.parse(answer.stdout);
  const reason = /^reason=(\w+)$/.exec(details)?.[1] as Reason;
  const isStatus = error.code === CniErrorCode.PluginNotAvailable && reason === "DaemonUnavailable";
  expect(isStatus ? error.code : reasonRow(reason).code, reason).toBe(error.code);
  return { ...error, reason };
}

interface CniError {
  readonly cniVersion: string;
  readonly code: number;
  readonly msg: string;
  /** From `details`; it corresponds to `code`, except in a STATUS without plexusd. */
  readonly reason: Reason;
}

/** In dist/; PLEXUS_SHIM_BUILDS names others, such as a mutant. */
const builds = process.env.PLEXUS_SHIM_BUILDS?.split(",") ?? ["plexus", "plexus-asan"];

/** Declares the tests twice: for the shipped executable and for the one with sanitizers. */
export function eachBuild(name: string, body: (bench: () => Bench) => void): void {
  describe.each(builds)(`${name} (%s)`, { timeout: 30_000 }, (build) => {
    let bench: Bench;
    beforeEach(() => {
      bench = new Bench(join(dist, build));
    });
    afterEach(() => bench.close());
    body(() => bench);
  });
}
