/**
 * `npm run bench:agreement [-- --only TEXT]`: ten configurations on GPUs that are not here, their
 * capacity under an SLO found three ways: *emulated*, the built-in predictor and load over HTTP for
 * real, the GPU's time waited; *simulated*, request by request in virtual time; *estimate*, in
 * closed form. All three have the device's times from the same model: what differs is the server
 * around it, its CPU and what the load test says of it. Each with the ratio to the emulated one,
 * and whether that lies within the interval that the load test states (90 %). About twenty seconds
 * of load each, on a machine that does nothing else; build first.
 */
import { parseArgs } from 'node:util'
import {
  capacityOf,
  measureCapacity,
  measureSimulatedCapacity,
  protocolFor,
} from '../../profiler/index.ts'
import type { Configuration } from '../../search/types.ts'
import { architectureOf } from '../../trials/devices/architecture.ts'
import { modelledServer } from '../../trials/launchers/simulated/device.ts'
import { queueingModel } from '../../trials/launchers/simulated/estimate.ts'
import { predictCapacity } from '../../trials/launchers/simulated/estimated-capacity.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { describeConfiguration } from '../../trials/resources.ts'
import { table } from '../render/columns.ts'
import { onBuiltin } from './built-predictor.ts'

const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' } } })
const { signal } = new AbortController()

interface Case {
  readonly model: string
  readonly limitMs: number
  readonly configuration: Configuration
}

const onOneCore = (model: string, limitMs: number, gpu: string, more: Configuration): Case => ({
  model,
  limitMs,
  configuration: { cpuCores: 1, gpu, ...more },
})
/**
 * Batches of one and of many, shares, short and long delays, two instances, tight and loose limits,
 * on GPUs with tables and one without; rates that two cores can offer.
 */
const cases: readonly Case[] = [
  onOneCore('bert', 50, 'T4', { batchSize: 1, maxDelayMs: 1 }),
  onOneCore('bert', 50, 'T4', { batchSize: 8, maxDelayMs: 2 }),
  onOneCore('bert', 50, 'T4', { batchSize: 16, gpuMemoryPercent: 50, maxDelayMs: 2 }),
  onOneCore('bert', 50, 'L4', { batchSize: 16, maxDelayMs: 5 }),
  onOneCore('bert', 50, 'L4', { batchSize: 4, instances: 2, maxDelayMs: 2 }),
  onOneCore('bert', 20, 'A10G', { batchSize: 4, maxDelayMs: 1 }),
  onOneCore('bert', 50, 'V100', { batchSize: 8, gpuMemoryPercent: 40, maxDelayMs: 2 }),
  onOneCore('bert-large', 100, 'T4', { batchSize: 8, maxDelayMs: 5 }),
  onOneCore('bert-large', 60, 'A100-40GB', { batchSize: 8, migProfile: '2g.10gb', maxDelayMs: 2 }),
  onOneCore('resnet50', 100, 'T4', { batchSize: 8, maxDelayMs: 5 }),
]

const sloOf = ({ limitMs }: Case) => ({ percentile: 0.99, limitMs, maxErrorRate: 0.001 })

/** Under real load, with its interval, req/s. */
const emulated = (of: Case) =>
  onBuiltin(of.model, of.configuration, async (url) => {
    const target = await protocolFor('oip-v2').prepare(
      url,
      of.model,
      { kind: 'generated', count: 64, seed: 1 },
      signal,
    )
    return measureCapacity({ target, slo: sloOf(of), signal, effort: 'standard', seed: 4242 })
  })

async function simulatedRps(of: Case): Promise<number> {
  const launcher = createSimulatedLauncher({ architecture: architectureOf(of.model), seed: 1 })
  const { target } = await launcher.launch(of.configuration, 1, signal)
  if (target.kind !== 'virtual') throw new Error('not virtual')
  return (await measureSimulatedCapacity({ target, slo: sloOf(of), seed: 1, signal })).capacityRps
}

const estimatedRps = (of: Case): number =>
  predictCapacity(
    queueingModel(modelledServer(architectureOf(of.model), of.configuration)),
    sloOf(of),
  ).capacityRps

const rows = [
  ['configuration', 'limit', 'emulated, req/s (90 %)', 'simulated', 'of it', 'estimate', 'of it'],
]
const found: { readonly simulated: number; readonly estimate: number; readonly within: boolean }[] =
  []
for (const of of cases) {
  const label = `${of.model}, ${describeConfiguration(of.configuration)}`
  if (!label.includes(options.only)) continue
  const [simulated, estimate] = [await simulatedRps(of), estimatedRps(of)]
  console.error(
    `${label}: simulated ${simulated.toFixed(0)}, estimate ${estimate.toFixed(0)} req/s`,
  )
  const measured = await emulated(of)
  const { known, capacityRps, capacityCi90Rps } = capacityOf(measured)
  if (known !== 'held') {
    const { outcome, detail = '' } = measured
    rows.push([
      label,
      `${of.limitMs} ms`,
      `not found: ${outcome}`,
      simulated.toFixed(0),
      '',
      estimate.toFixed(0),
      '',
    ])
    console.error(`  ${outcome}: ${detail}`)
    continue
  }
  const [low, high] = capacityCi90Rps
  found.push({
    simulated: simulated / capacityRps,
    estimate: estimate / capacityRps,
    within: simulated >= low && simulated <= high,
  })
  const ratios = [simulated, estimate].flatMap((rps) => [
    rps.toFixed(0),
    (rps / capacityRps).toFixed(2),
  ])
  rows.push([
    label,
    `${of.limitMs} ms`,
    `${capacityRps.toFixed(0)} (${low.toFixed(0)} to ${high.toFixed(0)})`,
    ...ratios,
  ])
}
if (rows.length === 1) throw new Error(`no configuration has '${options.only}' in its words`)
console.log(table(rows).join('\n'))
if (found.length === 0) throw new Error('of none was a capacity found under real load')

const off = (ratios: readonly number[]): string => {
  const errors = ratios.map((ratio) => Math.abs(ratio - 1)).sort((a, b) => a - b)
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`
  return `${percent(errors[Math.floor(errors.length / 2)]!)} in the median, ${percent(errors.at(-1)!)} at most`
}
console.log(
  `\nsimulated against emulated: off by ${off(found.map((f) => f.simulated))}; ${found.filter((f) => f.within).length} of ${found.length} within the interval`,
)
console.log(`estimate against emulated: off by ${off(found.map((f) => f.estimate))}`)
