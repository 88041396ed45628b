import type { Capabilities, InterfaceAnswer, JoinAnswer } from "./answers.ts";
import type { Method, RequestOf } from "./requests.ts";

/** The answer of each method; `{}` where there is nothing to say. */
interface Answers {
  readonly "Plugin.Activate": { readonly Implements: readonly string[] };
  readonly "NetworkDriver.GetCapabilities": Capabilities;
  readonly "NetworkDriver.GwAllocCheck": { readonly SkipIPv4: boolean; readonly SkipIPv6: boolean };
  readonly "NetworkDriver.AllocateNetwork": { readonly Options: Readonly<Record<string, string>> };
  readonly "NetworkDriver.CreateEndpoint": { readonly Interface: InterfaceAnswer };
  readonly "NetworkDriver.EndpointOperInfo": { readonly Value: Readonly<Record<string, unknown>> };
  readonly "NetworkDriver.Join": JoinAnswer;
}

/** `{}`. */
export type EmptyAnswer = Readonly<Record<string, never>>;

/** The answer of a method. */
type AnswerOf<M extends Method> = M extends keyof Answers ? Answers[M] : EmptyAnswer;

/** Serves the methods of the protocol. Each throws an Error whose message the engine shows to its user. */
export type NetworkDriver = {
  readonly [M in Method]: (request: RequestOf<M>) => Promise<AnswerOf<M>>;
};
