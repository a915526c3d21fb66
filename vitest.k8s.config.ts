import { defineConfig } from 'vitest/config'
import { SkippedReporter } from './tuner/testing/skipped-reporter.ts'

/** Tests against the cluster that KUBECONFIG names: npm run test:k8s. */
export default defineConfig({
  test: {
    include: ['{tuner,reports,trials}/**/*.k8s-test.ts'],
    globalSetup: ['./tuner/testing/build.ts', './trials/launchers/kubernetes/testing/image.ts'],
    fileParallelism: false,
    // A cluster on two cores, under load of its own: two more tries tell a fault from a hiccup.
    retry: process.env.CI ? 2 : 0,
    // As in vitest.config.ts.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ['default', new SkippedReporter(), ...(process.env.CI ? ['json'] : [])],
    outputFile: { json: '.ci/results/k8s.json' },
  },
})
