import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import { listNotices } from '../loop/notices.ts'
import { estimateAll } from '../problem/estimate-table.ts'
import { createLlmRequests } from '../problem/llm-requests.ts'
import { createProblem } from '../problem/problem.ts'
import { createSimulatedBackend } from './simulated-backend.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-simulated-llm-'))
afterAll(() => rmSync(folder, { recursive: true }))
const { signal } = new AbortController()
const load = (flags: Record<string, unknown>) =>
  loadExperiment({
    flags: { model: 'llama-3.1-8b', backend: 'simulated', gpus: 'H100,A100-80GB', ...flags },
    cwd: folder,
    machine: { cpuCores: 2, gpus: [] },
  })

test('a trial of a joint SLO in virtual time: its capacity is where the estimate puts it, and its points say which limits were kept', async () => {
  const experiment = load({ slo: 'p90 ttft<400ms tpot<25ms' })
  const { launcher, measure } = createSimulatedBackend(experiment)
  const configuration = { cpuCores: 1, gpu: 'H100', maxNumSeqs: 64, maxNumBatchedTokens: 2048 }
  const predictor = await launcher.launch(configuration, 1, signal)
  const measurement = await measure(
    predictor,
    { kind: 'trial' },
    { number: 1, onStep: () => {} },
    signal,
  )
  const { rows } = estimateAll(experiment, createProblem(experiment, defaultPriceBook))
  const row = rows.find((r) =>
    Object.entries(configuration).every(([name, value]) => r.configuration[name] === value),
  )!
  expect(measurement.outcome).toBe('converged')
  expect(Math.abs(measurement.capacityRps / row.capacityRps - 1)).toBeLessThan(row.relativeError)
  const last = measurement.points.at(-1)!
  expect(last.joint!.good).toBeGreaterThanOrEqual(0.9)
  expect(last.joint!.met.ttft).toBeGreaterThanOrEqual(last.joint!.good)
  // The rate it saturates at is no less than the rate it serves.
  expect(measurement.saturationRps).toBeGreaterThanOrEqual(measurement.capacityRps)
})

test('without a cache of beginnings a conversation is computed anew with every turn, by the trials and by the estimate', async () => {
  writeFileSync(
    join(folder, 'turns.yaml'),
    'model: llama-3.1-8b\nslo: p90 ttft<400ms\nbackend: simulated\npin: {gpu: H100, maxNumSeqs: 16, maxNumBatchedTokens: 2048}\n' +
      'space: {enablePrefixCaching: ["on", "off"]}\nload: {payload: {inputTokens: 200, outputTokens: 20, turns: 8, count: 256}}\n',
  )
  const experiment = loadExperiment({
    file: 'turns.yaml',
    cwd: folder,
    machine: { cpuCores: 2, gpus: [] },
  })
  const { launcher, measure } = createSimulatedBackend(experiment)
  const capacityRps = async (enablePrefixCaching: string) => {
    const configuration = {
      cpuCores: 1,
      gpu: 'H100',
      maxNumSeqs: 16,
      maxNumBatchedTokens: 2048,
      enablePrefixCaching,
    }
    const predictor = await launcher.launch(configuration, 1, signal)
    return (await measure(predictor, { kind: 'trial' }, { number: 1, onStep: () => {} }, signal))
      .capacityRps
  }
  // A prompt is 970 tokens on average, 200 of them new.
  expect((await capacityRps('on')) / (await capacityRps('off'))).toBeGreaterThan(1.5)
  const { rows } = estimateAll(experiment, createProblem(experiment, defaultPriceBook))
  const estimated = (value: string) =>
    rows.find(({ configuration }) => configuration.enablePrefixCaching === value)!.capacityRps
  expect(estimated('on') / estimated('off')).toBeGreaterThan(1.5)
})

test('requests beyond the longest sequence are refused by the estimate as by every trial; where prompts are cut to it they are not', () => {
  const long = (backend: string) => {
    writeFileSync(
      join(folder, 'long.yaml'),
      `model: llama-3.1-8b\nslo: ttft<2s\nbackend: ${backend}\ndevices: emulated\npin: {gpu: H100, gpus: 1, maxNumSeqs: 16, maxNumBatchedTokens: 2048}\n` +
        'space: {}\nload: {payload: {inputTokens: 5000, outputTokens: 20, count: 4}}\n',
    )
    const experiment = loadExperiment({
      file: 'long.yaml',
      cwd: folder,
      machine: { cpuCores: 2, gpus: [] },
    })
    return JSON.stringify(estimateAll(experiment, createProblem(experiment, defaultPriceBook)))
  }
  const refused = /4 of 4 are longer than max-model-len 4096; the longest has 5020 tokens/
  expect(long('simulated')).toMatch(refused)
  expect(long('local')).not.toMatch(refused)
})

test('an estimate says what its figures stand on; a notice too', () => {
  const experiment = load({ slo: 'ttft<400ms' })
  expect(estimateAll(experiment, createProblem(experiment, defaultPriceBook)).caveat).toMatch(
    /continuous batching, fitted to published measurements of whole servers: nothing was launched/,
  )
  const stated = (server?: string, gpus = 'H100,L4') => {
    const text = listNotices(
      load({ slo: 'ttft<400ms', gpus, ...(server && { server }) }),
      'simulated',
    ).join()
    const [, name, ...errors] =
      /a model of (.+?), typical error of step times \(1σ\): H100 (\d+) %, L4 (\d+) %/.exec(text)!
    return { name, errors: errors.map(Number) }
  }
  const { name, errors } = stated()
  expect(name).toBe('vLLM 0.11')
  // Wider on a GPU where it was not measured, and wider for a server of which a predecessor was.
  expect(errors[1]).toBeGreaterThan(errors[0]!)
  expect(stated('sglang').name).toBe('SGLang 0.5')
  expect(stated('tensorrt-llm').name).toBe('TensorRT-LLM 0.14 to 1.2')
  expect(stated('tgi').errors[0]).toBeGreaterThan(errors[1]!)
})

test('the server that is named is the one that is simulated', async () => {
  const capacityOf = async (server: string) => {
    const experiment = load({ slo: 'p90 ttft<2s tpot<60ms', server })
    const { launcher, measure } = createSimulatedBackend(experiment)
    const predictor = await launcher.launch({ cpuCores: 1, gpu: 'H100', maxNumSeqs: 32 }, 1, signal)
    return (await measure(predictor, { kind: 'trial' }, { number: 1, onStep: () => {} }, signal))
      .capacityRps
  }
  const [sglang, tgi] = [await capacityOf('sglang'), await capacityOf('tgi')]
  expect(tgi).toBeLessThan(0.7 * sglang)
})

test('requests are those that a server would be sent; only beginnings that prompts share stay known', () => {
  const prompts = {
    inputTokens: { kind: 'fixed', tokens: 100 },
    outputTokens: { kind: 'fixed', tokens: 7 },
    sharedPrefixTokens: 48,
  } as const
  const requests = createLlmRequests({ kind: 'generated', seed: 1, count: 20, prompts })
  expect(
    requests.map(({ promptTokens, outputTokens, prefix }) => [
      promptTokens,
      outputTokens,
      prefix.length,
    ]),
  ).toEqual(Array.from({ length: 20 }, () => [100, 7, 3]))
  const path = join(folder, 'bodies.jsonl')
  writeFileSync(
    path,
    `${JSON.stringify({ messages: [{ role: 'user', content: 'how are you' }], max_tokens: 9 })}\n\n{"prompt": "a b"}\n`,
  )
  expect(createLlmRequests({ kind: 'file', path })).toEqual([
    { promptTokens: 3, outputTokens: 9, prefix: [] },
    { promptTokens: 2, outputTokens: 128, prefix: [] },
  ])
  writeFileSync(path, '{"prompt": 3}\n')
  expect(() => createLlmRequests({ kind: 'file', path })).toThrow(
    /bodies.jsonl:1: 'prompt' must be a text/,
  )
})

test('lengths of a trace, as Azure publishes them', () => {
  const trace = join(folder, 'azure.csv')
  writeFileSync(
    trace,
    'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,0\n',
  )
  writeFileSync(
    join(folder, 'e.yaml'),
    `model: llama-3.1-8b\nslo: ttft<1s\nload: {payload: {lengths: azure.csv, count: 3}}\n`,
  )
  const experiment = loadExperiment({
    file: 'e.yaml',
    cwd: folder,
    machine: { cpuCores: 2, gpus: [] },
  })
  expect(
    createLlmRequests(experiment.load.payload).map((r) => [r.promptTokens, r.outputTokens]),
  ).toEqual([
    [374, 44],
    [396, 109],
    [374, 44],
  ])
  expect(experiment.document.load).toMatchObject({ payload: { lengths: trace } })
  writeFileSync(trace, 'a,b\n1,2\n')
  expect(() =>
    loadExperiment({ file: 'e.yaml', cwd: folder, machine: { cpuCores: 2, gpus: [] } }),
  ).toThrow(/no column of input tokens/)
})
