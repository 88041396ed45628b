import { join } from "node:path";
import type { Server, ServerWritableStream, ServiceDefinition } from "@grpc/grpc-js";
import { callUnary } from "#grpc/call-unary.ts";
import { integer, message, parts, text, texts } from "#grpc/testing/message-types.ts";
import { waitUntil } from "../../../support/wait.ts";
import { type Done, serveUnix, unary } from "./unix-server.ts";

/* The kubelet's device plugin API, v1beta1 (k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1/api.proto). */

const empty = message({});
const options = message({ preStartRequired: integer(1), preferredAllocation: integer(2) });
const device = message({ id: text(1), health: text(2) });
const devices = message({ devices: parts(1, device) });
const allocateRequest = message({ containerRequests: parts(1, message({ devicesIds: texts(1) })) });
const allocateResponse = message({ containerResponses: parts(1, empty) });
const registration = message({ version: text(1), endpoint: text(2), resourceName: text(3) });
const register = { path: "/v1beta1.Registration/Register", decode: empty.decode };

/** Of the kubelet's pod-resources API, v1: the devices that it can give to pods. */
const allocatable = {
  path: "/v1.PodResourcesLister/GetAllocatableResources",
  decode: message({
    devices: parts(1, message({ resourceName: text(1), deviceIds: texts(2) })),
  }).decode,
};

const timeoutMs = 10_000;

/** What the test's plugin offers. */
export interface DevicePluginOptions {
  /** The kubelet's directory, as this process sees it. */
  readonly kubeletDir: string;
  readonly resourceName: string;
  readonly ids: readonly string[];
}

/** A device plugin of the tests: hands out names, and has nothing done for them. */
export class DevicePlugin implements Disposable {
  readonly options: DevicePluginOptions;
  readonly #socket: string;
  #server: Server | undefined;

  constructor(given: DevicePluginOptions) {
    this.options = given;
    this.#socket = `${given.resourceName.replace("/", "-")}.sock`;
  }

  /**
   * Serves, registers, and waits until the kubelet has the devices. Call it again after
   * the kubelet restarts: the kubelet removes the socket and refuses pods that request a resource without devices.
   */
  async start(): Promise<void> {
    this[Symbol.dispose]();
    const { kubeletDir, resourceName } = this.options;
    const directory = join(kubeletDir, "device-plugins");
    const path = join(directory, this.#socket);
    this.#server = await serveUnix(path, service, this.#handlers());
    const plugin = { version: "v1beta1", endpoint: this.#socket, resourceName };
    const socketPath = join(directory, "kubelet.sock");
    await callUnary(register, { socketPath, request: registration.encode(plugin), timeoutMs });
    await this.#waitForKubelet();
  }

  async #waitForKubelet(): Promise<void> {
    const { kubeletDir, resourceName, ids } = this.options;
    const socketPath = join(kubeletDir, "pod-resources/kubelet.sock");
    const call = { socketPath, request: empty.encode({}), timeoutMs };
    await waitUntil(`the kubelet has the devices of ${resourceName}`, async () => {
      const { devices } = await callUnary(allocatable, call);
      const own = devices.filter((each) => each.resourceName === resourceName);
      return own.flatMap(({ deviceIds }) => deviceIds).length === ids.length;
    });
  }

  [Symbol.dispose](): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  #handlers() {
    const list = this.options.ids.map((id) => ({ id, health: "Healthy" }));
    return {
      GetDevicePluginOptions: (_: unknown, done: Done<object>) => done(null, {}),
      // Stays open: a stream that ends takes the devices away.
      ListAndWatch: (call: ServerWritableStream<object, object>) =>
        void call.write({ devices: list }),
      Allocate: (call: { request: { containerRequests: readonly object[] } }, done: Done<object>) =>
        done(null, { containerResponses: call.request.containerRequests.map(() => ({})) }),
    };
  }
}

const service: ServiceDefinition = {
  GetDevicePluginOptions: unary("/v1beta1.DevicePlugin/GetDevicePluginOptions", empty, options),
  ListAndWatch: {
    ...unary("/v1beta1.DevicePlugin/ListAndWatch", empty, devices),
    responseStream: true,
  },
  Allocate: unary("/v1beta1.DevicePlugin/Allocate", allocateRequest, allocateResponse),
};
