import { type Command, type RunResult, run, tryRun } from "../machine/run.ts";

/** kubectl as a cluster's administrator. */
export class Kubectl {
  readonly #command: Command;

  /** @param command runs kubectl; arguments follow */
  constructor(command: Command) {
    this.#command = command;
  }

  /** The command that runs kubectl. Files are looked for on this machine, as usual. */
  kubectlCommand(...args: string[]): Command {
    return [...this.#command, ...args];
  }

  /** Runs kubectl and returns its standard output. Throws if it fails. */
  async kubectl(...args: string[]): Promise<string> {
    return run(this.kubectlCommand(...args));
  }

  /** Runs kubectl, whatever its exit status. */
  async tryKubectl(...args: string[]): Promise<RunResult> {
    return tryRun(this.kubectlCommand(...args));
  }

  /** Applies manifests: YAML text, or one object. */
  async apply(manifest: string | object): Promise<string> {
    const input = typeof manifest === "string" ? manifest : JSON.stringify(manifest);
    return run(this.kubectlCommand("apply", "--filename=-"), { input });
  }

  /** Reads objects of the API as `kubectl get ARGS --output=json` gives them. */
  async get<T = unknown>(...args: string[]): Promise<T> {
    return JSON.parse(await this.kubectl("get", ...args, "--output=json")) as T;
  }
}
