import { configDefaults, defineConfig } from 'vitest/config'

/** Tests that compute and parse: no process of their own, no load in real time, nothing timed. */
const pure = [
  'search/**/*',
  'reports/*',
  'reports/{dashboard,imports,plan,specs}/**/*',
  'profiler/{statistics,virtual}/**/*',
  'profiler/capacity/{disturbance,rate-bisection,stalls,twin,virtual-capacity}',
  'trials/*',
  'trials/{devices,prices,server-files}/**/*',
  'trials/kubernetes/{cluster,deploy,manifests,payload-map}',
  'trials/predictor/{preprocess,protocol}/**/*',
  'trials/simulated/{launcher,llm,simulated}',
  'tuner/{experiment,render}/**/*',
  'tuner/{assemble,cluster-space,default-configuration,loop,simulated-capacity,simulated-llm}',
].map((files) => `${files}.test.{ts,tsx}`)

export default defineConfig({
  test: {
    // Real processes, browsers and load on two shared cores: in CI one more try tells a fault from a hiccup of the machine.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    setupFiles: ['./tuner/testing/property-runs.ts'],
    reporters: process.env.CI ? ['default', ['json', { outputFile: '.ci/results/unit.json' }]] : ['default'],
    projects: [
      {
        extends: true,
        // A second try would hide what fails now and then.
        test: { name: 'pure', include: pure, isolate: false, maxWorkers: 2, retry: 0 },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: ['{tuner,profiler,search,reports,trials,examples}/**/*.test.{ts,tsx}', '*.test.ts'],
          exclude: [...configDefaults.exclude, ...pure],
          globalSetup: ['./tuner/testing/build.ts'],
          // Load tests share two cores with what they measure: one file at a time, after the others, keeps their figures honest.
          fileParallelism: false,
        },
      },
    ],
  },
})
