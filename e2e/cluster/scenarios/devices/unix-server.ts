import { mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import {
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { MessageType } from "#grpc/testing/message-types.ts";

/** Serves gRPC on a socket, in place of whatever was there. */
export async function serveUnix(
  path: string,
  service: ServiceDefinition,
  handlers: UntypedServiceImplementation,
): Promise<Server> {
  await mkdir(dirname(path), { recursive: true });
  await rm(path, { force: true });
  const server = new Server();
  server.addService(service, handlers);
  const bind = promisify(server.bindAsync.bind(server));
  await bind(`unix:${path}`, ServerCredentials.createInsecure());
  return server;
}

/** A method of a service by its path, such as `/v1beta1.DevicePlugin/Allocate`. */
export function unary<Request, Response>(
  path: string,
  request: MessageType<Request>,
  response: MessageType<Response>,
) {
  return {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: (value: Partial<Request>) => request.encode(value),
    requestDeserialize: (bytes: Buffer) => request.decode(bytes),
    responseSerialize: (value: Partial<Response>) => response.encode(value),
    responseDeserialize: (bytes: Buffer) => response.decode(bytes),
  };
}

/** How a handler answers. */
export type Done<T> = (error: Error | null, value?: T) => void;
