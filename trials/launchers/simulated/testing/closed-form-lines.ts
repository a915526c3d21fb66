/**
 * What `bench:devices -- --llm` prints of the closed form: how far it is from the simulation that
 * it stands for.
 */
import { measureSimulatedCapacity } from '../../../../profiler/index.ts'
import type { Slo } from '../../../../profiler/model/slo.ts'
import type { Configuration } from '../../../../search/types.ts'
import { type Decoder, findArchitecture } from '../../../devices/architecture.ts'
import { type LlmEngineName, llmEngineNames } from '../../../predictor/llm/engine-profile.ts'
import { predictLlmCapacities } from '../llm-capacity.ts'
import { buildLlmModel, type LlmRequest } from '../llm-configuration.ts'
import { summariseLlmLoad } from '../llm-load.ts'
import { pooledEngines } from '../llm-pools.ts'
import { SimulatedLlmServer } from '../llm-server.ts'

const llama = findArchitecture('llama-3.1-8b') as Decoder
const servers: readonly Configuration[] = [
  { gpu: 'H100' },
  { gpu: 'A100-80GB', maxNumSeqs: 64 },
  { gpu: 'L40S', quantization: 'fp8' },
  { gpu: 'L4', quantization: 'awq' },
]
const requests = (prompt: (i: number) => number, output: (i: number) => number): LlmRequest[] =>
  Array.from({ length: 200 }, (_, i) => ({
    promptTokens: prompt(i),
    outputTokens: output(i),
    prefix: [],
  }))
const loads = [
  requests(
    (i) => 50 + ((i * 37) % 300),
    (i) => 40 + ((i * 53) % 200),
  ),
  requests(
    (i) => 300 + ((i * 371) % 2500),
    (i) => 100 + ((i * 53) % 400),
  ),
]
const limits: readonly NonNullable<Slo['limits']>[] = [
  [
    { metric: 'ttft', limitMs: 400 },
    { metric: 'tpot', limitMs: 25 },
  ],
  [{ metric: 'tpot', limitMs: 40 }],
  [
    { metric: 'ttft', limitMs: 1000 },
    { metric: 'tpot', limitMs: 60 },
  ],
  [{ metric: 'ttft', limitMs: 250 }],
  [{ metric: 'e2e', limitMs: 8000 }],
]

const percent = (ln: number) => `${(100 * Math.expm1(ln)).toFixed(0)} %`

/** One server for prompts and answers of each kind, and pools of those that have them. */
const kinds: readonly {
  readonly engine: LlmEngineName
  readonly pools: Configuration
  readonly name: string
}[] = [
  ...llmEngineNames.map((engine) => ({ engine, pools: {}, name: engine })),
  ...pooledEngines.flatMap((engine) =>
    [
      [1, 1],
      [1, 2],
      [2, 1],
    ].map(([prefill, decode]) => ({
      engine,
      pools: { prefillReplicas: prefill!, decodeReplicas: decode! },
      name: `${engine} ${prefill}:${decode}`,
    })),
  ),
]

/**
 * A line for each server, and for pools of prefill and decode servers: four GPUs, two loads, five
 * SLOs at p90, where both can serve. Takes some minutes.
 */
export async function* closedFormLines(): AsyncGenerator<string> {
  yield 'Capacity in closed form against the simulation, llama-3.1-8b'
  for (const { engine, pools, name } of kinds) {
    const logs: number[] = []
    for (const configuration of servers)
      for (const load of loads)
        for (const limit of limits) {
          const slo: Slo = {
            percentile: 0.9,
            maxErrorRate: 0.001,
            limitMs: limit[0]!.limitMs,
            metric: limit[0]!.metric,
            limits: limit,
          }
          const server = buildLlmModel(llama, { ...configuration, ...pools }, { engine })
          const { capacityRps } = await measureSimulatedCapacity({
            target: { kind: 'virtual', server: new SimulatedLlmServer({ server, requests: load }) },
            slo,
            seed: 1,
            signal: new AbortController().signal,
            arrivals: { kind: 'poisson' },
          })
          const ln = Math.log(
            predictLlmCapacities({ server, load: summariseLlmLoad(load) }, slo)().capacityRps /
              capacityRps,
          )
          if (Number.isFinite(ln)) logs.push(ln)
        }
    const sizes = logs.map(Math.abs).sort((a, b) => a - b)
    const at = (q: number) => percent(sizes[Math.floor(q * sizes.length)]!)
    yield `  ${name.padEnd(14)} median ${at(0.5)}  2/3 ${at(2 / 3)}  p90 ${at(0.9)}  n ${sizes.length}`
  }
}
