import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { SkippedReporter } from './tuner/testing/skipped-reporter.ts'

/** Tests that compute and parse: no process of their own, no load in real time, nothing timed. */
export const pure = [
  '{architecture,licences}',
  'search/**/*',
  'reports/*',
  'reports/{dashboard,imports,plan,recommendation,specs}/**/*',
  'reports/report/{recommendation-json,report-blocks}',
  'profiler/{plain-text,slo}',
  'profiler/{statistics,testing,virtual}/**/*',
  'profiler/generator/answer-sampler',
  'profiler/protocols/{answer-check,expectations,protocol-table,tensor-bytes}',
  'profiler/capacity/{[!m]*,measured-*}',
  'trials/*',
  'trials/{devices,prices}/**/*',
  'trials/machine/gpu-offer',
  'trials/launchers/{checked-answers,golden-store,own-command}',
  'trials/launchers/server-files/**/*',
  'trials/launchers/kubernetes/{cluster-facts,deploy,manifests,payload-map,planned-objects,pod-policy,pod-secrets}',
  'trials/launchers/simulated/{simulated-launcher,simulated-capacity,llm,simulated}',
  'trials/predictor/{preprocess,protocol}/**/*',
  'tuner/testing/{chaos,mutation}/**/*',
  'tuner/{experiment,render}/**/*',
  'tuner/backends/{cluster-space,load-work,simulated-backend,simulated-llm}',
  'tuner/names',
  'tuner/commands/replay/replay-outcome',
  'tuner/commands/verify/verified',
  'tuner/loop/*',
  'tuner/truth/*',
].map((files) => `${files}.test.{ts,tsx}`)

/**
 * Tests of what a measurement says: latencies, rates and shares of cores in real time, held against what is known of the server. They share the
 * cores with what they measure, so they come last and one file at a time, which keeps their figures honest. Tests that load something to see what
 * becomes of it (files, failures, what is left behind) are processes: a figure that a busy machine moves is not what they are about.
 */
const measured = [
  'profiler/generator/{http-generator,http2,known-servers,machine-watch}',
  'profiler/protocols/openai',
  'profiler/protocols/grpc/*',
  'trials/launchers/simulated/agreement',
  'trials/launchers/local/control-group',
  'trials/predictor/llm/llm',
].map((files) => `${files}.test.{ts,tsx}`)

/** Those that take longest, longest first: begun first, none of them is left to run alone at the end. On a new checkout vitest knows no durations. */
const longest = [
  'docs',
  'tuner/main-job',
  'tuner/commands/verify/run',
  'tuner/planted-secrets',
  'tuner/backends/kubernetes-backend',
  'profiler/profile',
  'tuner/whole-run',
  'tuner/gpu-machines',
  'tuner/cli',
  'tuner/dashboard/browser',
  'tuner/hostile-input',
  'tuner/commands/init/init',
  'trials/launchers/local/local-launcher',
].map((file) => `/${file}.test.ts`)

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((file) => moduleId.endsWith(file))
      return at < 0 ? longest.length : at
    }
    return (await super.sort(files)).sort((a, b) => place(a) - place(b))
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    // What takes ten seconds takes minutes on a machine with ten other things to do.
    testTimeout: 300_000,
    hookTimeout: 300_000,
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
