import { defineConfig } from "vitest/config"

const { CONFORMANCE_TEST_TIMEOUT_MS = "30000", CONFORMANCE_REPORT } = process.env
const timeout = Number(CONFORMANCE_TEST_TIMEOUT_MS)

export default defineConfig({
  test: {
    include: ["conformance.test.mjs"],
    testTimeout: timeout,
    hookTimeout: timeout,
    reporters: CONFORMANCE_REPORT ? ["default", "json"] : ["default"],
    outputFile: { json: CONFORMANCE_REPORT },
  },
})
