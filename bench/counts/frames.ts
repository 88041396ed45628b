import { rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { FrameReader } from "#protocol/frame.ts";

/** The conversation of a shim with its engine. */
export interface Conversation {
  /** How often the shim waited for the engine. */
  waits: number;
  shim: { frames: number; bytes: number };
  engine: { frames: number; bytes: number };
}

/** Stands between a shim and its engine, and counts the frames. */
export class FrameCounter implements Disposable {
  readonly #server: Server;
  readonly #engine: string;
  #last: Conversation | undefined;

  constructor({ socket, engine }: { socket: string; engine: string }) {
    this.#engine = engine;
    rmSync(socket, { force: true });
    this.#server = createServer((shim) => this.#accept(shim)).listen(socket);
  }

  /** Of the last call. @throws Error when there was none */
  get last(): Conversation {
    if (this.#last === undefined) throw new Error("no shim has connected");
    return this.#last;
  }

  #accept(shim: Socket): void {
    const engine = connect(this.#engine);
    const seen = { shim: { frames: 0, bytes: 0 }, engine: { frames: 0, bytes: 0 }, waits: 0 };
    let isShimsTurn = false;
    const pass = (side: "shim" | "engine", [from, to]: [Socket, Socket]): void => {
      const reader = new FrameReader();
      from.on("data", (chunk) => {
        seen[side].bytes += chunk.length;
        seen[side].frames += reader.push(chunk).length;
        if (side === "engine" && !isShimsTurn) seen.waits += 1;
        isShimsTurn = side === "engine";
        to.write(chunk);
      });
      from.on("error", () => to.destroy());
      from.on("close", () => to.end());
    };
    pass("shim", [shim, engine]);
    pass("engine", [engine, shim]);
    this.#last = seen;
  }

  [Symbol.dispose](): void {
    this.#server.close();
  }
}
