import { describe } from "vitest"
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const { CONFORMANCE_URL, CONFORMANCE_LONG_POLL_MS = "500" } = process.env
if (!CONFORMANCE_URL) throw new Error("CONFORMANCE_URL names the server under test")

describe("durable streams", () => {
  runConformanceTests({
    baseUrl: CONFORMANCE_URL,
    longPollTimeoutMs: Number(CONFORMANCE_LONG_POLL_MS),
    subscriptions: true,
  })
})
