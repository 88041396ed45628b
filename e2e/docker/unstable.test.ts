import { describe } from "vitest";
import { dockerScenarios } from "./scenarios.ts";

describe("Docker Engine of Debian unstable", () => dockerScenarios("unstable"));
