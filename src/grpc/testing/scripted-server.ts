import { rmSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  type Metadata,
  Server,
  ServerCredentials,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { onTestFinished } from "vitest";
import type { MessageType } from "./message-types.ts";

/** A method that a test scripts. */
export interface ScriptedMethod<Request, Response> {
  readonly path: string;
  readonly request: MessageType<Request>;
  readonly response: MessageType<Response>;
}

/** How a method answers: with its response, with bytes that need not be one, or by throwing {@link status}. */
type Answer<Request, Response> = (
  request: Request,
) => Partial<Response> | Uint8Array | Promise<Partial<Response> | Uint8Array>;

/** What a method throws to fail with a gRPC status. */
export function status(code: number, details: string): Error {
  return Object.assign(new Error(details), { code, details });
}

/** A real gRPC server at a temporary socket, whose methods a test scripts. Ends with the test. */
export class ScriptedServer {
  readonly directory: string;
  readonly socketPath: string;
  readonly #methods: Record<string, object> = {};
  readonly #handlers: UntypedServiceImplementation = {};
  #server: Server | undefined;
  /** The requests of each method, by path, in their order. */
  readonly requests: [path: string, request: unknown][] = [];

  private constructor(directory: string, socketPath: string) {
    this.directory = directory;
    this.socketPath = socketPath;
  }

  /** On the given socket, or on one in a new directory. Nothing listens before {@link start}. */
  static async create(socketPath?: string): Promise<ScriptedServer> {
    const directory = await mkdtemp(join(tmpdir(), "plexus-grpc-"));
    const server = new ScriptedServer(directory, socketPath ?? join(directory, "server.sock"));
    onTestFinished(async () => {
      server.stop();
      await rm(server.directory, { recursive: true });
    });
    return server;
  }

  /** Has a method answered so, from the next {@link start} on. */
  answer<Request, Response>(
    { path, request, response }: ScriptedMethod<Request, Response>,
    answer: Answer<Request, Response>,
  ): this {
    const encode = (value: Partial<Response> | Uint8Array): Buffer =>
      value instanceof Uint8Array ? Buffer.from(value) : response.encode(value);
    this.#methods[path] = {
      path,
      requestStream: false,
      responseStream: false,
      requestSerialize: (bytes: Buffer) => bytes,
      requestDeserialize: request.decode,
      responseSerialize: encode,
      responseDeserialize: (bytes: Buffer) => bytes,
    };
    this.#handlers[path] = (
      call: { readonly request: Request; readonly metadata: Metadata },
      done: (error: Error | null, value?: unknown) => void,
    ) => {
      this.requests.push([path, call.request]);
      Promise.resolve(call.request)
        .then(answer)
        .then((value) => done(null, value), done);
    };
    return this;
  }

  /**
   * A socket that a killed server left is replaced, as daemons do.
   * @param options.at where the socket is made, before it replaces another one at once
   */
  async start({ at = this.socketPath } = {}): Promise<this> {
    await rm(at, { force: true });
    const server = new Server();
    server.addService(this.#methods as never, this.#handlers);
    const bind = promisify(server.bindAsync.bind(server));
    await bind(`unix:${at}`, ServerCredentials.createInsecure());
    if (at !== this.socketPath) await rename(at, this.socketPath);
    this.#server = server;
    return this;
  }

  /** Ends it at once, with the calls that are in flight; its socket is removed. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    rmSync(this.socketPath, { force: true });
  }
}
