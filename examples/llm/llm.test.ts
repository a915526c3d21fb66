import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { efforts, HttpLoadGenerator, measureCapacity } from '../../profiler/index.ts'
import { recommend } from '../../reports/recommendation/recommend.ts'
import { complete, measured, sampleInput } from '../../reports/samples.contract.ts'
import { renderSpec } from '../../reports/specs/index.ts'
import type { Configuration } from '../../search/types.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { weightsToFill } from '../../trials/predictor/weights-to-fill.ts'
import { buildContainer, resolveServing } from '../../tuner/artifacts/serving.ts'
import { createProtocol } from '../../tuner/backends/predictor-protocol.ts'
import { createSimulatedBackend } from '../../tuner/backends/simulated-backend.ts'
import { createHostContext } from '../../tuner/config/host-context.ts'
import { loadExperiment } from '../../tuner/config/load-experiment.ts'
import type { Experiment } from '../../tuner/config/types.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-llm-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const machine = await inspectMachine()
const experiment = loadExperiment({
  file: join(dirname(fileURLToPath(import.meta.url)), 'experiment.yaml'),
  flags: {},
  ...createHostContext(machine),
})

test('the experiment is about the first token, by the OpenAI protocol, on an emulated GPU', () => {
  expect(experiment).toMatchObject({
    slo: { metric: 'ttft', percentile: 0.9, limitMs: 500 },
    devicesUsed: 'emulated',
    predictor: { kind: 'builtin', protocol: 'openai' },
    load: { payload: { kind: 'generated', prompts: { sharedPrefixTokens: 64, prefixes: 4 } } },
  })
})

test('a trial of it serves, says that it is emulated, keeps every latency of its streams, and leaves nothing', async () => {
  const { predictor: template, space, load, slo } = experiment
  if (template.kind !== 'builtin') throw new Error('the experiment uses the built-in predictor')
  const { protocol } = createProtocol(experiment)
  const launcher = createLocalLauncher({
    template,
    parameters: space.parameters,
    protocol,
    payload: load.payload,
    runDirectory: join(folder, 'experiment'),
    machine,
  })
  const { signal } = new AbortController()
  const predictor = await launcher.launch(
    { cpuCores: 1, gpu: 'H100', maxNumSeqs: 64, maxNumBatchedTokens: 2048 },
    1,
    signal,
  )
  const generator = new HttpLoadGenerator()
  try {
    expect(predictor.provenance).toBe('emulated')
    const effort = {
      ...efforts.quick,
      warmUpS: 0.1,
      unloadedS: 0.1,
      windowS: 0.5,
      windows: 1,
      saturationS: 0.2,
      budgetS: 3,
    }
    const { points, unloaded, capacityCi90Rps } = await measureCapacity({
      target: predictor.target,
      slo,
      signal,
      effort,
      generator,
    })
    const last = points.at(-1)!
    expect(last.stream!.tpot.p50Ms).toBeGreaterThan(1)
    expect(last.stream!.e2e.p50Ms).toBeGreaterThan(last.stream!.ttft.p50Ms)
    expect(unloaded.p50Ms).toBeLessThan(slo.limitMs)
    expect(capacityCi90Rps[1]).toBeGreaterThan(0)
  } finally {
    await generator.close()
    await predictor.stop()
  }
  expect(readdirSync(join(folder, 'running'))).toEqual([])
})

/** Arguments of the container in the Deployment that is written for a configuration. */
async function deployedArgs(
  of: Experiment,
  configuration: Configuration,
): Promise<readonly string[]> {
  const recommendation = recommend({
    ...sampleInput,
    provenance: 'emulated',
    slo: of.slo,
    trials: [complete(1, configuration, { ...measured(265, 10), slo: of.slo })],
    pricePerHour: () => 1,
    label: () => 'it',
  })
  const [file] = await renderSpec(
    'kubernetes',
    resolveServing(of, recommendation, recommendation.best!, [], { modelUri: 's3://b/m' }),
  )
  const [deployment] = parseAllDocuments(file!.text).map((one) => one.toJS())
  return deployment.spec.template.spec.containers[0].args
}

test('what deploys is a server that runs the model for real, under the tuned values', async () => {
  const configuration = { cpuCores: 1, gpu: 'H100', maxNumSeqs: 64, maxNumBatchedTokens: 2048 }
  const container = buildContainer(experiment, configuration)
  expect(container).toMatchObject({
    image: expect.stringMatching(/^vllm\//),
    readyPath: '/health',
    command: ['vllm', 'serve', weightsToFill],
  })
  expect(await deployedArgs(experiment, configuration)).toEqual([
    '--port=8000',
    '--served-model-name=llama-3.1-8b',
    '--max-num-seqs=64',
    '--max-num-batched-tokens=2048',
    '--max-model-len=4096',
  ])
})

test('quantised.yaml: variants by quality under limits on both parts of the stream, in virtual time', async () => {
  const quantised = loadExperiment({
    file: join(dirname(fileURLToPath(import.meta.url)), 'quantised.yaml'),
    flags: {},
    ...createHostContext(machine),
  })
  expect(quantised.slo.limits?.map(({ metric }) => metric)).toEqual(['ttft', 'tpot'])
  const { launcher, measure } = createSimulatedBackend(quantised)
  const capacityOf = async (variant: string) => {
    const configuration = {
      cpuCores: 1,
      gpu: 'L40S',
      maxNumSeqs: 16,
      maxNumBatchedTokens: 2048,
      variant,
    }
    const predictor = await launcher.launch(configuration, 1, new AbortController().signal)
    expect(predictor.provenance).toBe('simulated')
    const options = { number: 1, onStep: () => undefined }
    return (await measure(predictor, { kind: 'trial' }, options, new AbortController().signal))
      .capacityRps
  }
  const [wide, narrow] = [await capacityOf('fp16'), await capacityOf('awq')]
  expect(wide).toBeGreaterThan(0)
  expect(narrow).toBeGreaterThan(1.3 * wide)
  const best = {
    cpuCores: 1,
    gpu: 'L40S',
    maxNumSeqs: 16,
    maxNumBatchedTokens: 2048,
    variant: 'awq',
  }
  expect(await deployedArgs(quantised, best)).toContain('--quantization=awq_marlin')
})
