import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import type { LifeState } from "#serving/life.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

afterEach(() => void vi.restoreAllMocks());

/** Shares nothing between two reads: at every look, the clock is much later. */
function unshared(): Metrics {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => (now += 60_000));
  return createMetrics(() => "serving");
}

async function linesOf(metrics: Metrics, name: string): Promise<string[]> {
  const { text } = await metrics.render();
  return text.split("\n").filter((line) => line.startsWith(name));
}

test("counts and times the runtime's calls by command and result", async () => {
  const metrics = unshared();
  metrics.engine.requestStarted("ADD");
  metrics.engine.requestStarted("DEL");
  metrics.engine.requestEnded("ADD", { milliseconds: 20 });
  expect(await linesOf(metrics, "plexus_inflight_requests ")).toEqual([
    "plexus_inflight_requests 1",
  ]);
  metrics.engine.requestEnded("DEL", { code: 102, milliseconds: 700 });
  expect(await linesOf(metrics, "plexus_cni_requests_total")).toEqual([
    'plexus_cni_requests_total{command="ADD",result="success"} 1',
    'plexus_cni_requests_total{command="DEL",result="code_102"} 1',
  ]);
  expect(await linesOf(metrics, "plexus_cni_request_duration_seconds_sum")).toEqual([
    'plexus_cni_request_duration_seconds_sum{command="ADD"} 0.02',
    'plexus_cni_request_duration_seconds_sum{command="DEL"} 0.7',
  ]);
});

test("times delegates by type, network and result", async () => {
  const metrics = unshared();
  const delegate = { command: "ADD", type: "macvlan", network: "default/net-a", milliseconds: 5 };
  metrics.engine.delegateEnded({ ...delegate, ok: true });
  metrics.engine.delegateEnded({ ...delegate, ok: false });
  expect(await linesOf(metrics, "plexus_delegate_duration_seconds_count")).toEqual([
    'plexus_delegate_duration_seconds_count{command="ADD",plugin_type="macvlan",network="default/net-a",result="success"} 1',
    'plexus_delegate_duration_seconds_count{command="ADD",plugin_type="macvlan",network="default/net-a",result="error"} 1',
  ]);
});

test("limits the number of label values", async () => {
  const metrics = unshared();
  for (let i = 0; i < 300; i++) {
    const network = `default/net-${i}`;
    metrics.engine.delegateEnded({ command: "ADD", type: "x", network, ok: true, milliseconds: 1 });
    metrics.engine.requestStarted(`JUNK${i}`);
    metrics.engine.requestEnded(`JUNK${i}`, { milliseconds: 1 });
  }
  expect(await linesOf(metrics, "plexus_delegate_duration_seconds_count")).toHaveLength(201);
  expect(await linesOf(metrics, "plexus_cni_requests_total")).toEqual([
    'plexus_cni_requests_total{command="other",result="success"} 300',
  ]);
});

test("exports counters of rare events as 0 before the first event", async () => {
  const metrics = unshared();
  metrics.kube.cacheSynced("pods", false);
  expect((await metrics.render()).text.split("\n")).toEqual(
    expect.arrayContaining([
      'plexus_status_writes_total{result="rejected"} 0',
      'plexus_events_dropped_total{reason="queue"} 0',
      'plexus_apiserver_watch_restarts_total{resource="pods",reason="expired"} 0',
    ]),
  );
});

test("exports the state of plexusd, the API caches, the configuration and the node configuration", async () => {
  const metrics = createMetrics(() => "draining");
  metrics.kube.cacheSynced("pods", true);
  metrics.kube.watchRestarted("pods", "expired");
  metrics.kube.statusWrite("written");
  metrics.kube.eventDropped("rate");
  metrics.configReloaded(false);
  metrics.nodeConfState("waiting");
  metrics.nodeConfState("active");
  expect((await metrics.render()).text.split("\n")).toEqual(
    expect.arrayContaining([
      'plexus_apiserver_cache_synced{resource="pods"} 1',
      'plexus_apiserver_watch_restarts_total{resource="pods",reason="expired"} 1',
      'plexus_status_writes_total{result="written"} 1',
      'plexus_events_dropped_total{reason="rate"} 1',
      'plexus_state{state="serving"} 0',
      'plexus_state{state="draining"} 1',
      "plexus_config_last_reload_successful 0",
      'plexus_conf_state{state="active"} 1',
      'plexus_conf_state{state="waiting"} 0',
      'plexus_conf_state{state="foreign-rename"} 0',
      `plexus_build_info{version="dev",commit="dev",node_version="${process.version}"} 1`,
    ]),
  );
});

test("timestamps the last valid configuration and the last answer of each resource's watch", async () => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  onTestFinished(() => void vi.useRealTimers());
  const metrics = unshared();
  const [reload, cache] = [
    "plexus_config_last_reload_success_timestamp_seconds",
    "plexus_apiserver_cache_updated_timestamp_seconds",
  ];
  expect(await linesOf(metrics, "plexus_config_last_reload_successful")).toEqual([
    "plexus_config_last_reload_successful 1",
  ]);
  vi.advanceTimersByTime(60_000);
  metrics.configReloaded(false);
  metrics.kube.cacheUpdated("pods");
  expect(await linesOf(metrics, reload)).toEqual([`${reload} 1800000000`]);
  expect(await linesOf(metrics, cache)).toEqual([`${cache}{resource="pods"} 1800000060`]);
  metrics.configReloaded(true);
  expect(await linesOf(metrics, reload)).toEqual([`${reload} 1800000060`]);
});

test("a count that fails is Nan, and the other metrics are served", async () => {
  const metrics = unshared();
  metrics.count({
    plexus_attachments: () => Promise.reject(new Error("unreadable")),
    plexus_leftover_records: async () => 2,
  });
  expect(await linesOf(metrics, "plexus_attachments ")).toEqual(["plexus_attachments Nan"]);
  expect(await linesOf(metrics, "plexus_leftover_records ")).toEqual(["plexus_leftover_records 2"]);
});

test("scrapes share the text for a second, so that a flood of them renders once", async () => {
  let now = 0;
  const state = vi.fn<() => LifeState>(() => "serving");
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const metrics = createMetrics(state);
  await Promise.all(Array.from({ length: 48 }, () => metrics.render()));
  now = 999;
  await metrics.render();
  expect(state).toHaveBeenCalledTimes(1);
  now = 1000;
  await metrics.render();
  expect(state).toHaveBeenCalledTimes(2);
});

test("includes the process's own metrics", async () => {
  expect(await linesOf(unshared(), "process_resident_memory_bytes")).not.toEqual([]);
});

test("lists are made when they are read, and forget what is gone", async () => {
  const metrics = unshared();
  let networks = [
    { network: "shop/a", usable: "true" },
    { network: "shop/b", usable: "false" },
  ];
  const broken = async () => Promise.reject(new Error("cannot list"));
  metrics.list({ plexus_networks: async () => networks, plexus_attachment_info: broken });
  expect(await linesOf(metrics, "plexus_networks{")).toEqual([
    'plexus_networks{network="shop/a",usable="true"} 1',
    'plexus_networks{network="shop/b",usable="false"} 1',
  ]);
  networks = [{ network: 'shop/"c', usable: "true" }];
  expect(await linesOf(metrics, "plexus_networks{")).toEqual([
    'plexus_networks{network="shop/\\"c",usable="true"} 1',
  ]);
  expect(await linesOf(metrics, "plexus_attachment_info{")).toEqual([]);
});
