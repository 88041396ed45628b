import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { waitUntil } from "../support/wait.ts";

/** A message of Chromium's protocol: an answer has an id, an event has a method. */
interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

/** Debian's, or the one of GitHub's runners. */
const browsers = "command -v chromium || command -v google-chrome";

/** Events that a page without defects does not cause. */
const defects = /^(?:Runtime\.exceptionThrown|Log\.entryAdded|Network\.loadingFailed)$/;

/** A page in a headless Chromium. */
export class Browser implements AsyncDisposable {
  /** What went wrong on the page: exceptions, errors of the console, requests that failed. */
  readonly problems: string[] = [];
  readonly #program;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, PromiseWithResolvers<Message>>();
  #lastId = 0;

  private constructor(program: ReturnType<typeof startChromium>, socket: WebSocket) {
    this.#program = program;
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#receive(JSON.parse(data) as Message));
  }

  /** Starts Chromium with its files in an empty directory. */
  static async start(directory: string): Promise<Browser> {
    const { stdout: chromium } = await execa("sh", ["-c", browsers]);
    const program = startChromium(chromium, directory);
    const port = await waitUntil("Chromium listens", async () => {
      const [line] = (await readFile(join(directory, "DevToolsActivePort"), "utf8")).split("\n");
      return line;
    });
    const pages = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
    const [{ webSocketDebuggerUrl }] = pages as [{ webSocketDebuggerUrl: string }];
    const socket = new WebSocket(webSocketDebuggerUrl);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const browser = new Browser(program, socket);
    for (const domain of ["Page", "Runtime", "Log", "Network"])
      await browser.send(`${domain}.enable`);
    return browser;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    this.#program.kill();
    await this.#program;
  }

  /** Sends a command of the protocol. @throws Error if Chromium rejects it */
  async send(method: string, params: object = {}): Promise<Readonly<Record<string, unknown>>> {
    const id = ++this.#lastId;
    const waiting = Promise.withResolvers<Message>();
    this.#waiting.set(id, waiting);
    this.#socket.send(JSON.stringify({ id, method, params }));
    const { error, result = {} } = await waiting.promise;
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  /** Opens a page. */
  async open(url: string): Promise<void> {
    const { errorText } = await this.send("Page.navigate", { url });
    if (errorText !== undefined) throw new Error(`${url}: ${errorText}`);
    await this.waitFor("document.readyState === 'complete'");
  }

  /** The value of an expression in the page. @throws Error if it throws */
  async value<T>(expression: string): Promise<T> {
    const asked = { expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", asked);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  }

  /** Waits until an expression in the page is true. */
  async waitFor(expression: string): Promise<void> {
    await waitUntil(expression, () => this.value<boolean>(expression));
  }

  #receive({ id, method = "", params, ...answer }: Message): void {
    if (id !== undefined) this.#waiting.get(id)?.resolve(answer);
    if (defects.test(method)) this.problems.push(`${method}: ${JSON.stringify(params)}`);
  }
}

function startChromium(program: string, directory: string) {
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
  const args = [...flags, `--user-data-dir=${directory}`, "about:blank"];
  return execa(program, args, { reject: false });
}
