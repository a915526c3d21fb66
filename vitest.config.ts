import { configDefaults, defineConfig } from 'vitest/config'
import { SkippedReporter } from './tuner/testing/skipped-reporter.ts'

/** Tests that compute and parse: no process of their own, no load in real time, nothing timed. */
export const pure = [
  'architecture',
  'search/**/*',
  'reports/*',
  'reports/{dashboard,imports,plan,recommendation,specs}/**/*',
  'reports/report/{recommendation-json,report-blocks}',
  'profiler/slo',
  'profiler/capacity/workers',
  'profiler/{statistics,testing,virtual}/**/*',
  'profiler/protocols/{protocol-table,tensor-bytes}',
  'profiler/capacity/{bisected-rates,capacity-under,confirm,confirmed-windows,counted-search,cross-check,disturbance,evidence,kept-under,known-capacity,load-curve,measured-windows,open-search,pauses,rate-bisection,saturation,session,speed,stalls,stalls-by-hand,steps,stream-view,twin,twin-by-hand,virtual-capacity,warm-up,windows-seen}',
  'trials/*',
  'trials/{devices,prices}/**/*',
  'trials/launchers/server-files/**/*',
  'trials/launchers/kubernetes/{cluster-facts,deploy,manifests,payload-map}',
  'trials/launchers/simulated/{simulated-launcher,simulated-capacity,llm,simulated}',
  'trials/predictor/{preprocess,protocol}/**/*',
  'tuner/testing/mutation/**/*',
  'tuner/{experiment,render}/**/*',
  'tuner/backends/{cluster-space,load-work,simulated-backend,simulated-llm}',
  'tuner/names',
  'tuner/commands/replay/replay-outcome',
  'tuner/commands/verify/verified',
  'tuner/loop/*',
  'tuner/truth/*',
].map((files) => `${files}.test.{ts,tsx}`)

/**
 * Tests that measure, or whose commands do: load in real time. They share the cores with what they measure, so they come last and one file at a
 * time, which keeps their figures honest.
 */
const measured = [
  'docs',
  'examples/**/*',
  'profiler/**/*',
  'trials/launchers/{url,simulated,local}/**/*',
  'trials/predictor/llm/**/*',
  'tuner/{main-job,whole-run,own,killed-tuner,clock-steps}',
  'tuner/backends/*',
  'tuner/commands/verify/*',
].map((files) => `${files}.test.{ts,tsx}`)

export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 60_000,
    setupFiles: ['./tuner/testing/property-runs.ts'],
    reporters: ['default', new SkippedReporter(), ...(process.env.CI ? ['json'] : [])],
    outputFile: { json: '.ci/results/unit.json' },
    projects: [
      {
        extends: true,
        test: { name: 'pure', include: pure, isolate: false, maxWorkers: 2, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: ['{tuner,profiler,search,reports,trials,examples}/**/*.test.{ts,tsx}', '*.test.ts'],
          exclude: [...configDefaults.exclude, ...pure, ...measured],
          globalSetup: ['./tuner/testing/build.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'measured',
          include: measured,
          exclude: [...configDefaults.exclude, ...pure],
          globalSetup: ['./tuner/testing/build.ts'],
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
