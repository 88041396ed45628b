import type { Duplex } from "node:stream";
import { Engine } from "#engine/engine.ts";
import { HostConfFiles, HostDeviceInfoFiles } from "#host/conf-files.ts";
import { ShimSession } from "#host/shim-session.ts";
import { FileRecordStore } from "#records/file-store.ts";
