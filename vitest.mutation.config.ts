import { defineConfig } from 'vitest/config'
import { pure } from './vitest.config.ts'

/** Tests from which `npm run mutation` chooses: those that only compute. */
export default defineConfig({
  test: {
    include: pure,
    setupFiles: ['./tuner/testing/property-runs.ts'],
    // As in vitest.config.ts. Stryker has a limit of its own for what a mutant delays.
    testTimeout: 300_000,
  },
})
