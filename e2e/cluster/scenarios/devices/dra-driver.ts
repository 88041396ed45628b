import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Server, ServiceDefinition } from "@grpc/grpc-js";
import { integer, message, part, parts, text, texts } from "#grpc/testing/message-types.ts";
import { type Done, serveUnix, unary } from "./unix-server.ts";

/*
 * The kubelet's API for drivers of dynamic resource allocation, v1 (k8s.io/kubelet, pkg/apis/dra/v1/api.proto), and
 * the API for their registration (pkg/apis/pluginregistration/v1/api.proto).
 */

const empty = message({});
const claims = message({ claims: parts(1, message({ uid: text(2), name: text(3) })) });
const device = message({ poolName: text(2), deviceName: text(3) });
/** Of `map<string, NodePrepareResourceResponse>`. */
const prepared = message({ key: text(1), value: part(2, message({ devices: parts(1, device) })) });
const unprepared = message({ key: text(1), value: part(2, empty) });
const info = message({
  type: text(1),
  name: text(2),
  endpoint: text(3),
  supportedVersions: texts(4),
});
const status = message({ pluginRegistered: integer(1), error: text(2) });

/** Where the driver registers, and what it says of claims. */
export interface DraDriverOptions {
  readonly name: string;
  /** The kubelet's directory as this process sees it; the kubelet itself has it in /var/lib. */
  readonly kubeletDir: string;
  /** The device that a claim was allocated, by the claim's name. */
  readonly allocated: (
    claim: string,
  ) => Promise<readonly { readonly pool: string; readonly device: string }[]>;
}

type Claims = { readonly request: ReturnType<typeof claims.decode> };

/** A driver of the tests: prepares nothing, as the devices are links that are there already. */
export class DraDriver implements AsyncDisposable {
  readonly #options: DraDriverOptions;
  readonly #servers: Server[] = [];
  readonly #registered = Promise.withResolvers<void>();

  constructor(options: DraDriverOptions) {
    this.#options = options;
  }

  /** Serves, and resolves when the kubelet has registered it. @throws Error with the kubelet's reason */
  async start(): Promise<void> {
    this.#servers.push(await serveUnix(this.#socket, driverService, this.#driver()));
    this.#servers.push(await serveUnix(this.#registration, registrationService, this.#registrar()));
    await this.#registered.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) server.forceShutdown();
    await rm(this.#registration, { force: true });
    await rm(this.#socket, { force: true });
  }

  get #socket(): string {
    return join(this.#options.kubeletDir, "plugins", this.#options.name, "dra.sock");
  }

  /** The kubelet watches this directory. */
  get #registration(): string {
    return join(this.#options.kubeletDir, "plugins_registry", `${this.#options.name}-reg.sock`);
  }

  #registrar() {
    const { name } = this.#options;
    const endpoint = `/var/lib/kubelet/plugins/${name}/dra.sock`;
    return {
      GetInfo: (_: unknown, done: Done<object>) =>
        done(null, { type: "DRAPlugin", name, endpoint, supportedVersions: ["v1.DRAPlugin"] }),
      NotifyRegistrationStatus: (
        { request }: { request: ReturnType<typeof status.decode> },
        done: Done<object>,
      ) => {
        if (request.pluginRegistered === 1) this.#registered.resolve();
        else this.#registered.reject(new Error(request.error));
        done(null, {});
      },
    };
  }

  #driver() {
    return {
      NodePrepareResources: ({ request }: Claims, done: Done<object>) =>
        void this.#prepare(request.claims).then((value) => done(null, value), done),
      NodeUnprepareResources: ({ request }: Claims, done: Done<object>) =>
        done(null, { claims: request.claims.map(({ uid }) => ({ key: uid, value: {} })) }),
    };
  }

  async #prepare(list: Claims["request"]["claims"]): Promise<object> {
    const entries = list.map(async (claim) => {
      const devices = await this.#options.allocated(claim.name);
      const prepared = devices.map(({ pool, device }) => ({ poolName: pool, deviceName: device }));
      return { key: claim.uid, value: { devices: prepared } };
    });
    return { claims: await Promise.all(entries) };
  }
}

const driverPath = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin";

const driverService: ServiceDefinition = {
  NodePrepareResources: unary(
    `${driverPath}/NodePrepareResources`,
    claims,
    message({ claims: parts(1, prepared) }),
  ),
  NodeUnprepareResources: unary(
    `${driverPath}/NodeUnprepareResources`,
    claims,
    message({ claims: parts(1, unprepared) }),
  ),
};

const registrationService: ServiceDefinition = {
  GetInfo: unary("/pluginregistration.Registration/GetInfo", empty, info),
  NotifyRegistrationStatus: unary(
    "/pluginregistration.Registration/NotifyRegistrationStatus",
    status,
    empty,
  ),
};
