import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Slo, selectSloLatencies } from '../../../profiler/model/slo.ts'
import type { Configuration } from '../../../search/types.ts'
import { type Decoder, findArchitecture } from '../../devices/architecture.ts'
import { countGpus } from '../../resources.ts'
import { predictLlmCapacities } from './llm-capacity.ts'
import { buildLlmModel, type LlmModelOptions, type LlmRequest } from './llm-configuration.ts'
import { createLlmEstimator } from './llm-estimate.ts'
import { createSimulatedLlmLauncher } from './llm-launcher.ts'
import { summariseLlmLoad } from './llm-load.ts'
import { SimulatedLlmServer } from './llm-server.ts'

const small = findArchitecture('llama-3.1-8b') as Decoder
const large = findArchitecture('llama-3.1-70b') as Decoder
const request = (promptTokens: number, outputTokens: number): LlmRequest => ({
  promptTokens,
  outputTokens,
  prefix: [],
})
const pools = (prefillReplicas: number, decodeReplicas: number, gpus = 1): Configuration => ({
  gpu: 'H100',
  gpus,
  prefillReplicas,
  decodeReplicas,
})
const simulated = (
  configuration: Configuration,
  requests: readonly LlmRequest[],
  options: LlmModelOptions = {},
  architecture = small,
) => {
  const server = buildLlmModel(architecture, configuration, options)
  return { server, simulation: new SimulatedLlmServer({ server, requests }) }
}
const open = (rateRps: number, requests: number) =>
  ({
    kind: 'open',
    rateRps,
    arrivals: { kind: 'poisson' },
    durationS: requests / rateRps,
    seed: 1,
  }) as const
const limits = (ttftMs: number, tpotMs: number): Slo => ({
  percentile: 0.9,
  limitMs: ttftMs,
  maxErrorRate: 0.001,
  limits: [
    { metric: 'ttft', limitMs: ttftMs },
    { metric: 'tpot', limitMs: tpotMs },
  ],
})

describe('a lone request', () => {
  const [prompt, output] = [1500, 50]
  const lone = (options: LlmModelOptions) => {
    const { server, simulation } = simulated(pools(1, 1, 2), [request(prompt, output)], options)
    const { latenciesMs } = simulation.play({ kind: 'closed', connections: 1, durationS: 0.001 })
      .stream!
    const prefillMs = server.stepMs({ prefillTokens: prompt, decodes: 0, decodeContext: 0 })
    const decodeMs = (context: number) =>
      server.stepMs({ prefillTokens: 0, decodes: 1, decodeContext: context })
    return {
      server,
      ttftMs: latenciesMs.ttft[0]!,
      tpotMs: latenciesMs.tpot[0]!,
      prefillMs,
      decodeMs,
    }
  }
  // 2 x 32 layers x 8 heads x 128 numbers of two bytes a token, half of it over each of two GPUs'
  // links.
  const movedMs = (gbPerS: number) => (prompt * 131_072) / 2 / (gbPerS * 1e6)

  test('of vLLM: prompt, transfer, and the step of its last token on the decode server', () => {
    const { server, ttftMs, tpotMs, prefillMs, decodeMs } = lone({ engine: 'vllm' })
    expect(server.pools!.transfer).toEqual({ gbPerS: 200, latencyMs: 2 })
    expect(ttftMs).toBeCloseTo(
      2 * server.hostMs + prefillMs + movedMs(200) + 2 + decodeMs(prompt),
      6,
    )
    expect(tpotMs).toBeCloseTo(decodeMs(prompt + output / 2), 2)
  })

  test('of SGLang: prompt and transfer, with which the first token comes', () => {
    const { server, ttftMs, tpotMs, prefillMs, decodeMs } = lone({
      engine: 'sglang',
      kvTransfer: { gbPerS: 10 },
    })
    expect(server.pools!.transfer).toEqual({ gbPerS: 10, latencyMs: 2 })
    expect(ttftMs).toBeCloseTo(server.hostMs + prefillMs + movedMs(10) + 2, 6)
    expect(tpotMs).toBeCloseTo(decodeMs(prompt + output / 2), 2)
  })

  test('of pools that are split over different numbers of GPUs: each at its own pace, over the links of the end that has fewer', () => {
    const configuration = { ...pools(1, 1, 2), decodeGpus: 4 }
    const { server, simulation } = simulated(configuration, [request(prompt, output)], {
      engine: 'sglang',
    })
    const { ttft, tpot } = simulation.play({ kind: 'closed', connections: 1, durationS: 0.001 })
      .stream!.latenciesMs
    const alone = (gpus: number) =>
      buildLlmModel(small, { gpu: 'H100', gpus }, { engine: 'sglang' })
    const prefillMs = alone(2).stepMs({ prefillTokens: prompt, decodes: 0, decodeContext: 0 })
    expect(ttft[0]).toBeCloseTo(server.hostMs + prefillMs + movedMs(200) + 2, 6)
    expect(tpot[0]).toBeCloseTo(
      alone(4).stepMs({ prefillTokens: 0, decodes: 1, decodeContext: prompt + output / 2 }),
      2,
    )
    expect(server.pools!.decoder.limits.cacheTokens).toBe(alone(4).limits.cacheTokens)
    expect(countGpus(configuration)).toBe(6)
  })

  test('of decode servers of fewer GPUs: SGLang gathers, vLLM 0.11 does not; of numbers that do not divide neither', () => {
    const of = (gpus: number, decodeGpus: number, engine: 'vllm' | 'sglang') => () =>
      buildLlmModel(small, { ...pools(1, 1, gpus), decodeGpus }, { engine })
    expect(of(4, 2, 'sglang')().pools!.decoder.device.tensorParallel).toBe(2)
    expect(of(4, 2, 'vllm')).toThrow(
      /decode servers with 2 GPUs cannot continue requests of prefill servers with 4; the supported version of vllm/,
    )
    expect(of(2, 3, 'sglang')).toThrow(
      /cannot continue requests.*; one number of GPUs must be a multiple of the other/,
    )
    // Each must hold the weights.
    expect(() =>
      buildLlmModel(large, { ...pools(1, 1, 4), decodeGpus: 1 }, { engine: 'sglang' }),
    ).toThrow(/out of memory/)
    const estimator = createLlmEstimator({
      architecture: large,
      slo: limits(2000, 30),
      requests: () => [request(100, 10)],
      engine: 'sglang',
    })
    expect(
      [1, 4].map((decodeGpus) => estimator.cannotServe({ ...pools(1, 1, 4), decodeGpus })),
    ).toEqual([true, false])
  })

  test('of one token ends with it', () => {
    for (const engine of ['vllm', 'sglang'] as const) {
      const run = simulated(pools(1, 1), [request(100, 1)], { engine }).simulation.play(open(1, 5))
      expect(run.latencyMs.every((ms) => ms > 0)).toBe(true)
      expect([...run.stream!.latenciesMs.tpot]).toEqual([0, 0, 0, 0, 0])
    }
  })

  test('goes over the network where one machine does not hold both pools, and where its GPUs have no NVLink', () => {
    expect(buildLlmModel(small, pools(4, 4)).pools!.transfer.gbPerS).toBe(200)
    expect(buildLlmModel(small, pools(5, 4)).pools!.transfer.gbPerS).toBe(25)
    expect(buildLlmModel(small, { ...pools(1, 1), gpu: 'L40S' }).pools!.transfer.gbPerS).toBe(25)
  })
})

describe('pools under load', () => {
  test('every request is answered with all of its tokens, whatever the servers, lengths and the way between them', () => {
    fc.assert(
      fc.property(
        fc.record({
          prefill: fc.integer({ min: 1, max: 3 }),
          decode: fc.integer({ min: 1, max: 3 }),
          engine: fc.constantFrom('vllm', 'sglang'),
          gbPerS: fc.constantFrom(0.5, 25, 200),
          maxNumSeqs: fc.constantFrom(1, 4, 256),
          speculativeTokens: fc.constantFrom(0, 3),
          lengths: fc.array(
            fc.tuple(fc.integer({ min: 1, max: 3000 }), fc.integer({ min: 1, max: 200 })),
            { minLength: 1, maxLength: 20 },
          ),
          rate: fc.constantFrom(1, 10, 100),
        }),
        ({ prefill, decode, engine, gbPerS, maxNumSeqs, speculativeTokens, lengths, rate }) => {
          const requests = lengths.map(([promptTokens, outputTokens]) =>
            request(promptTokens, outputTokens),
          )
          const configuration = { ...pools(prefill, decode), maxNumSeqs, speculativeTokens }
          const { simulation } = simulated(configuration, requests, {
            engine,
            kvTransfer: { gbPerS },
          } as LlmModelOptions)
          const run = simulation.play(open(rate, 40))
          const { ttft, tpot, e2e } = run.stream!.latenciesMs
          run.latencyMs.forEach((ms, i) => {
            expect(ms).toBeGreaterThan(0)
            const { promptTokens, outputTokens } = requests[i % requests.length]!
            expect([run.stream!.inputTokens![i], run.stream!.tokens[i]]).toEqual([
              promptTokens,
              outputTokens,
            ])
            // No token before its prompt was computed and moved.
            expect(ttft[i]).toBeGreaterThan((promptTokens * 131_072) / (gbPerS * 1e6))
            expect(ttft[i]! + tpot[i]! * (outputTokens - 1)).toBeCloseTo(e2e[i]!, 6)
          })
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 15 },
    )
  })

  test('transfers share their links: a narrow way has prompts wait for each other, and answers none the slower for it', () => {
    const mean = (values: ArrayLike<number>) =>
      Array.from(values).reduce((sum, v) => sum + v, 0) / values.length
    const at = (gbPerS: number) =>
      simulated(pools(1, 1), [request(1000, 50)], { kvTransfer: { gbPerS } }).simulation.play(
        open(4, 200),
      ).stream!
    // A transfer of 160 ms leaves the link busy for 64 % of the time.
    const [wide, narrow] = [at(200), at((1000 * 131_072 * 1e-6) / 160)]
    expect(mean(narrow.latenciesMs.ttft) - mean(wide.latenciesMs.ttft)).toBeGreaterThan(200)
    expect(mean(narrow.latenciesMs.tpot)).toBeLessThan(1.1 * mean(wide.latenciesMs.tpot))
  })

  test('a second play knows nothing of the first but what was cached', () => {
    const { simulation } = simulated(pools(1, 2), [request(400, 60)])
    const [first, second] = [simulation.play(open(5, 100)), simulation.play(open(5, 100))]
    expect([...second.latencyMs]).toEqual([...first.latencyMs])
  })

  test('the launcher says what was used by either pool, and what is assumed of the way', async () => {
    const launch = (configuration: Configuration, options: LlmModelOptions = {}) =>
      createSimulatedLlmLauncher({
        architecture: small,
        requests: [request(2000, 20)],
        ...options,
      }).launch(configuration, 1, new AbortController().signal)
    const predictor = await launch({ ...pools(1, 2), cpuCores: 1 })
    if (predictor.target.kind !== 'virtual') throw new Error('not virtual')
    predictor.target.server.play(open(3, 100))
    expect(predictor.isolation).toBe(
      'simulated in virtual time: 3 cores, 1 prefill + 2 decode of H100; KV cache transfer at 200 GB/s per GPU plus 2 ms per request (assumed)',
    )
    const {
      prefillUtilization: prefill = 0,
      decodeUtilization: decode = 0,
      gpuUtilization,
      gpuMemoryMiB,
    } = await predictor.usage()
    expect(prefill).toBeGreaterThan(decode)
    expect(gpuUtilization).toBeCloseTo((prefill + 2 * decode) / 3, 10)
    expect(gpuMemoryMiB).toBeGreaterThan(3 * 60_000)
    const unlike = await launch({ ...pools(1, 2), decodeGpus: 2 })
    if (unlike.target.kind !== 'virtual') throw new Error('not virtual')
    unlike.target.server.play(open(3, 100))
    expect(unlike.isolation).toContain('1 prefill of H100 + 2 decode of 2 x H100')
    const used = await unlike.usage()
    expect(used.gpuUtilization).toBeCloseTo(
      (used.prefillUtilization! + 4 * used.decodeUtilization!) / 5,
      10,
    )
    expect(used.gpuMemoryMiB).toBeCloseTo((5 / 3) * gpuMemoryMiB!, 6)
    await expect(launch(pools(1, 2), { engine: 'tgi' })).rejects.toThrow(
      /prefill and decode pools are not modelled for tgi; use vllm or sglang/,
    )
    await expect(launch({ gpu: 'H100', prefillReplicas: 1 })).rejects.toThrow(
      /prefillReplicas is 1 and decodeReplicas 0/,
    )
  })
})

/** The highest rate of which the share that the SLO asks for is good, per GPU. */
function goodputPerGpu(
  configuration: Configuration,
  requests: readonly LlmRequest[],
  slo: Slo,
  options: LlmModelOptions,
): number {
  const { simulation } = simulated(configuration, requests, options, large)
  const [ttft, tpot] = slo.limits!
  // Longer than a queue takes to grow beyond the limits.
  const seconds = Math.max(12 * ttft!.limitMs, 3 * requests[0]!.outputTokens * tpot!.limitMs) / 1000
  const good = (rate: number) => {
    const run = simulation.play(open(rate, Math.max(400, Math.round(rate * seconds))))
    return (
      selectSloLatencies(run, slo).latencyMs.filter((ms) => ms <= slo.limitMs).length >=
      slo.percentile * run.latencyMs.length
    )
  }
  let [low, high] = [0.1, 60]
  if (!good(low)) return 0
  while (high / low > 1.05) {
    const middle = Math.sqrt(low * high)
    if (good(middle)) low = middle
    else high = middle
  }
  return low / countGpus(configuration)
}

describe('goodput per GPU of a 70B on H100 (DistServe, figure 1 and section 2)', () => {
  type Ratios = readonly (readonly [number, number])[]
  /** Of pools over that of one server for both, each by the better of its splits. */
  const gain = (
    engine: 'vllm' | 'sglang',
    ratios: Ratios,
    [lengths, slo]: readonly [LlmRequest, Slo],
    splits = [4, 8],
  ) => {
    const bestOf = (of: Ratios) =>
      Math.max(
        ...of.flatMap(([prefill, decode]) =>
          splits.map((gpus) =>
            goodputPerGpu(
              { ...pools(prefill, decode, gpus), maxNumBatchedTokens: 2048 },
              [lengths],
              slo,
              { engine },
            ),
          ),
        ),
      )
    return bestOf(ratios) / bestOf([[0, 0]])
  }

  test.each(['vllm', 'sglang'] as const)(
    'long prompts under a tight time between tokens: pools serve more, as %s',
    (engine) => {
      expect(
        gain(
          engine,
          [
            [1, 1],
            [2, 1],
          ],
          [request(2000, 200), limits(2000, 25)],
        ),
      ).toBeGreaterThan(1.4)
    },
  )

  test('the same under a loose one: one server for both serves more', () => {
    expect(
      gain(
        'vllm',
        [
          [1, 1],
          [2, 1],
        ],
        [request(2000, 200), limits(4000, 200)],
      ),
    ).toBeLessThan(0.98)
  })

  test('short prompts with long answers, under a tight one: one server for both serves more', () => {
    expect(
      gain(
        'vllm',
        [
          [1, 1],
          [1, 2],
        ],
        [request(100, 1000), limits(2000, 30)],
        [8],
      ),
    ).toBeLessThan(0.98)
  })
})

describe('the closed form', () => {
  const requests = Array.from({ length: 200 }, (_, i) =>
    request(800 + ((i * 37) % 2400), 80 + ((i * 53) % 240)),
  )
  const load = summariseLlmLoad(requests)
  const slo = limits(2000, 30)

  test.each<[Configuration, LlmModelOptions]>([
    [pools(1, 1, 4), {}],
    [{ ...pools(2, 1, 4), maxNumBatchedTokens: 8192 }, {}],
    [pools(2, 1, 4), { engine: 'sglang' }],
    [{ ...pools(2, 1, 4), decodeGpus: 8 }, {}],
    [{ ...pools(1, 1, 8), decodeGpus: 4 }, { engine: 'sglang' }],
    [pools(1, 1, 4), { kvTransfer: { gbPerS: 2 } }],
    [{ ...pools(1, 2, 4), maxNumSeqs: 16 }, { engine: 'sglang' }],
    [{ ...pools(2, 1, 4), speculativeTokens: 3, speculativeMethod: 'ngram' }, { acceptance: 0.6 }],
    [
      { ...pools(1, 2, 4), speculativeTokens: 3, speculativeMethod: 'ngram' },
      { engine: 'sglang', acceptance: 0.6 },
    ],
  ])(
    'puts the capacity of pools where the simulation does, within 25 %%: %j %j',
    (configuration, options) => {
      const server = buildLlmModel(large, configuration, options)
      const { capacityRps, saturationRps } = predictLlmCapacities({ server, load }, slo)()
      const simulatedRps =
        goodputPerGpu(configuration, requests, slo, options) * countGpus(configuration)
      expect(Math.abs(Math.log(capacityRps / simulatedRps))).toBeLessThan(Math.log(1.25))
      expect(saturationRps).toBeGreaterThanOrEqual(0.99 * capacityRps)
    },
  )

  test('of pools that serve alike, twice as many of each serve twice as much, and the estimator says what cannot be', () => {
    const capacityOf = (prefill: number, decode: number) =>
      predictLlmCapacities(
        {
          server: buildLlmModel(large, pools(prefill, decode, 4), { kvTransfer: { gbPerS: 200 } }),
          load,
        },
        slo,
      )().capacityRps
    // A little more than twice: arrivals that are dealt out in turn bunch less.
    expect(capacityOf(2, 2) / capacityOf(1, 1)).toBeGreaterThan(1.98)
    expect(capacityOf(2, 2) / capacityOf(1, 1)).toBeLessThan(2.4)
    const estimator = createLlmEstimator({ architecture: large, slo, requests: () => requests })
    const estimated = estimator.estimate(pools(1, 1, 4))
    expect(estimated.isFeasible && estimated.capacityRps).toBeCloseTo(capacityOf(1, 1), 6)
    expect(
      estimator.estimate({ gpu: 'H100', gpus: 4, prefillReplicas: 1, decodeReplicas: 0 }),
    ).toMatchObject({ isFeasible: false })
    // Its weights have to fit each server, not all of them together.
    expect([
      estimator.cannotServe({ ...pools(2, 2, 1), gpu: 'L4' }),
      estimator.cannotServe(pools(2, 2, 4)),
    ]).toEqual([true, false])
    const tgi = createLlmEstimator({
      architecture: large,
      slo,
      requests: () => requests,
      engine: 'tgi',
    })
    expect(tgi.estimate(pools(1, 1, 4))).toMatchObject({
      isFeasible: false,
      reason: expect.stringContaining('not modelled for tgi'),
    })
  })
})
