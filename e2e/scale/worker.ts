import { HollowNodes, type HollowOptions, type StatusCounts } from "./hollow-nodes.ts";

/** What main.ts asks of a process, each after the answer to the last. */
export type Order =
  | { readonly order: "start"; readonly options: HollowOptions }
  | { readonly order: "attach"; readonly round: number }
  | { readonly order: "stop" };

/** Its answer. */
export type Answer = { readonly counts?: StatusCounts } | { readonly error: string };

let nodes: HollowNodes | undefined;

async function carryOut(order: Order): Promise<Answer> {
  if (order.order === "start") nodes = await HollowNodes.start(order.options);
  else if (nodes === undefined) throw new Error("there are no nodes yet");
  else if (order.order === "attach") return { counts: await nodes.attach(order.round) };
  else await nodes.stop();
  return {};
}

process.on("message", (order: Order) => {
  const failed = (error: unknown): Answer => ({ error: String(error) });
  void carryOut(order)
    .catch(failed)
    .then((answer) => {
      process.send?.(answer);
      if (order.order === "stop") process.disconnect();
    });
});
